"""An app that reports the heading of a vehicle: the whole client side.

python examples/device.py http://127.0.0.1:8000 heading.json
"""

import sys

from arcwise.client import Client
from arcwise.tasks import Task

url, task_file = sys.argv[1:]
with Client(url, tasks=[Task.load(task_file)], max_epsilon=1.0) as client:
    for heading in (12.0, 350.5, 3.25):
        print("queued" if client.report("heading", heading) else "the device's budget is spent")
    print("acknowledged" if client.flush(timeout=10) else "still pending")
