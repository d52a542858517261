"""Run your own server: the app runs under any ASGI server, and Python code prints the estimates.

uvicorn --no-access-log --app-dir examples server:app
"""

from arcwise.analysis import estimate
from arcwise.domains import Circle
from arcwise.server import create_app
from arcwise.server.store import open_store
from arcwise.tasks import Task

STORE = "sqlite:///headings.db"
task = Task("heading", Circle(360), epsilon=1.0)
app = create_app(tasks=[task], store=STORE)

if __name__ == "__main__":
    task.save("heading.json")
    counts = open_store(STORE).counts(task)
    print(estimate(task, counts) if counts.any() else f"no reports yet; {task.id} is in heading.json")
