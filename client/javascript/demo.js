/** The demo page: reports the direction of pointer movements to ?server=, or to port 8000 of this machine. */

import { Client, IndexedDBLedger, Task } from "./arcwise/index.js";

const STEP = 40;
const INTERVAL = 2;

const show = (id, text) => (document.getElementById(id).textContent = text);
const field = document.getElementById("field");
const paper = field.getContext("2d");

const server = new URLSearchParams(location.search).get("server") ?? "http://127.0.0.1:8000";
const task = await Task.fromJson(await (await fetch("tasks/heading.json")).json());
const client = new Client(server, {
  tasks: [task],
  maxEpsilon: 1,
  ledger: new IndexedDBLedger("arcwise-demo"),
  interval: INTERVAL,
  onEvent: ({ kind, detail }) => kind !== "sent" && show("trouble", `${kind}: ${detail}`),
});

let from = null;

field.addEventListener("pointermove", async ({ offsetX: x, offsetY: y }) => {
  from ??= { x, y };
  const [across, up] = [x - from.x, from.y - y];
  if (Math.hypot(across, up) < STEP) return;
  from = { x, y };
  const heading = (Math.atan2(across, up) * 180) / Math.PI; // 0 is up, 90 to the right
  const granted = await client.report(task.name, heading);
  draw(heading);
  show("last", granted ? `${heading.toFixed(0)}\u00b0, randomised before it was queued` : "not made: the cap is spent");
  await update();
});
field.addEventListener("pointerleave", () => (from = null));

/** Draw a direction and a sample report of it, which is not the queued report. */
function draw(heading) {
  const { width, height } = field;
  const [x, y, radius] = [width / 2, height / 2, height * 0.42];
  const at = (degrees, r) => {
    const angle = (degrees * Math.PI) / 180;
    return [x + r * Math.sin(angle), y - r * Math.cos(angle)];
  };
  const code = task.randomize(heading);
  paper.clearRect(0, 0, width, height);
  paper.lineWidth = 3;
  paper.strokeStyle = "#bbb";
  paper.beginPath();
  paper.arc(x, y, radius, 0, 2 * Math.PI);
  paper.stroke();
  paper.strokeStyle = "#1f5fa8";
  paper.beginPath();
  paper.moveTo(x, y);
  paper.lineTo(...at(heading, radius));
  paper.stroke();
  paper.fillStyle = "#c8501e";
  paper.beginPath();
  paper.arc(...at(((code + 0.5) / task.kernel.codes) * 360, radius), 12, 0, 2 * Math.PI);
  paper.fill();
}

async function update() {
  const { sent, pending, dropped, refused } = await client.counters();
  const given = Object.entries(dropped).map(([reason, count]) => `, ${count} dropped (${reason})`);
  show("counts", `${sent} acknowledged, ${pending} waiting${given.join("")}${refused.full ? `, ${refused.full} lost` : ""}`);
  const { epsilon, reportsLeft } = await client.budget(task.name);
  show("spent", `epsilon ${Math.ceil(epsilon * 10) / 10}; ${reportsLeft} more reports are allowed`);
}

await update();
setInterval(update, 500);
