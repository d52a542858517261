"""Report the heading of a vehicle: the whole client side of an app. For a complete app see ride_logger.

arcwise client create telemetry.db
python examples/device.py http://127.0.0.1:8000 heading.json telemetry.db
"""

import sys

from arcwise.client import Client, FileLedger, Task

url, task_file, ledger_file = sys.argv[1:]
with (
    FileLedger(ledger_file) as ledger,
    Client(url, tasks=[Task.load(task_file)], ledger=ledger, max_epsilon=1.0) as client,
):
    for heading in (12.0, 350.5, 3.25):
        print(client.report("heading", heading).value)  # accepted, capped, full, ...
    client.flush(timeout=10)  # True once nothing is queued; reports that were finally refused count as done
    now = client.counters
    print(f"{now.sent} acknowledged, {sum(now.dropped.values())} dropped, {now.pending} still pending")
