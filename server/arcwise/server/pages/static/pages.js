// The moving parts of the dashboard: values under the pointer, fresh figures, copies, files. Pages work without it.
"use strict";

const body = document.body;
const news = document.getElementById("news");
const say = (words) => { if (news.textContent !== words) news.textContent = words; };

// Values of charts, under the pointer and for the keyboard's focus.
const tip = document.createElement("div");
tip.className = "tip";
tip.hidden = true;
tip.setAttribute("aria-hidden", "true"); // the table below each chart has the same numbers
body.append(tip);

function showTip(mark, x, y) {
  tip.textContent = mark.dataset.value;
  tip.hidden = false;
  const width = tip.offsetWidth, room = document.documentElement.clientWidth;
  tip.style.left = `${Math.max(8, Math.min(x + 14, room - width - 8)) + scrollX}px`;
  tip.style.top = `${Math.max(8, y - tip.offsetHeight - 12) + scrollY}px`;
}

document.addEventListener("pointermove", (event) => {
  const mark = event.target.closest?.("[data-value]");
  if (mark) showTip(mark, event.clientX, event.clientY);
  else tip.hidden = true;
});
document.addEventListener("pointerdown", (event) => { // a finger does not move over a mark first
  const mark = event.target.closest?.("[data-value]");
  if (mark) showTip(mark, event.clientX, event.clientY);
  else tip.hidden = true;
});
document.addEventListener("keydown", (event) => { if (event.key === "Escape") tip.hidden = true; });

// A page from the browser's cache may show what it showed before a logout.
addEventListener("pageshow", (event) => { if (event.persisted) location.reload(); });

// Copies.
function prepare(root) {
  for (const button of root.querySelectorAll("[data-copy]")) button.hidden = !navigator.clipboard;
  for (const field of root.querySelectorAll("[data-file-for]")) field.hidden = false;
}
prepare(document);

document.addEventListener("click", async (event) => {
  const button = event.target.closest?.("[data-copy]");
  if (!button) return;
  try {
    await navigator.clipboard.writeText(button.parentElement.querySelector("code").textContent);
    button.textContent = "Copied";
  } catch {
    button.textContent = "Not allowed";
  }
  setTimeout(() => { button.textContent = "Copy"; }, 2000);
});

// Put the text of a chosen file into the field that is sent.
document.addEventListener("change", async (event) => {
  const field = event.target.closest?.("[data-file-for]");
  const file = event.target.files?.[0];
  if (field && file) document.getElementById(field.dataset.fileFor).value = await file.text();
});

// Fresh figures: fetch the same page again; the answer is 304 while nothing has changed.
const seconds = Number(body.dataset.refresh);
let etag = body.dataset.etag;
let usual = seconds;
let every = seconds;
let isPending = document.querySelector("main[data-pending]") !== null;
let timer = 0;

function merge(page) {
  for (const fresh of page.querySelectorAll("[data-live]")) {
    const name = CSS.escape(fresh.dataset.live);
    const old = document.querySelector(`[data-live="${name}"]`);
    if (!old || old.innerHTML === fresh.innerHTML || isBusy(old)) continue;
    const open = [...old.querySelectorAll("details[open][id]")].map((each) => each.id);
    const active = old.contains(document.activeElement) ? document.activeElement : null;
    const near = active?.closest("[id]");
    const from = near && near !== old && old.contains(near) ? near : old;
    const place = active && pathTo(from, active);
    const scrolled = [...old.querySelectorAll(".scroll")].map((each) => [each.scrollLeft, each.scrollTop]);
    old.replaceChildren(...fresh.childNodes);
    for (const id of open) old.querySelector(`#${CSS.escape(id)}`)?.setAttribute("open", "");
    old.querySelectorAll(".scroll").forEach((each, i) => { if (scrolled[i]) [each.scrollLeft, each.scrollTop] = scrolled[i]; });
    if (place) at(from === old ? old : document.getElementById(from.id), place)?.focus({ preventScroll: true });
    prepare(old);
    tip.hidden = true;
  }
}

// Leave a part alone while somebody writes in it or has opened a form in it.
function isBusy(part) {
  const active = document.activeElement;
  return (part.contains(active) && active.matches("input, textarea, select"))
    || part.querySelector("details[open] form") !== null;
}

function pathTo(root, node) {
  const path = [];
  for (; node !== root; node = node.parentElement) path.unshift([...node.parentElement.children].indexOf(node));
  return path;
}

function at(root, path) {
  return path.reduce((node, i) => node?.children[i], root ?? undefined);
}

async function refresh() {
  if (document.hidden) return;
  try {
    const answer = await fetch(location.href, {
      headers: { Accept: "text/html", "If-None-Match": etag }, credentials: "same-origin", redirect: "manual",
      signal: AbortSignal.timeout(20000),
    });
    if (answer.type === "opaqueredirect" || answer.status === 401) {
      say("The session has ended. Load the page again to log in.");
      return;
    }
    if (answer.status === 200) {
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      etag = answer.headers.get("ETag") ?? page.body.dataset.etag;
      usual = Number(page.body.dataset.refresh) || seconds;
      merge(page);
      const wasPending = isPending;
      isPending = page.querySelector("main[data-pending]") !== null;
      if (!wasPending) every = usual;
    } else if (answer.status !== 304) {
      throw new Error(String(answer.status));
    }
    every = isPending ? Math.min(2 * every, 10) : usual; // ask less often for figures that take long
    say("");
  } catch {
    every = Math.min(Math.max(every, 2) * 2, 120);
    say("The server does not answer, so the figures may be old. Trying again.");
  }
  schedule();
}

function schedule() {
  clearTimeout(timer);
  if (seconds && !document.hidden) timer = setTimeout(refresh, every * 1000);
}

document.addEventListener("visibilitychange", () => {
  clearTimeout(timer);
  if (seconds && !document.hidden) refresh();
});
schedule();
