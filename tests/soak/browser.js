// A window that reports as fast as it can, to one account after the other, and posts the client's results:
// ?window=a|b&server=URL&first=NUMBER&last=NUMBER&make|finish, where `make` makes the accounts, `finish` sends the
// rest, and neither reports.

import { Client, IndexedDBLedger, Task } from "/arcwise/index.js";

const given = new URLSearchParams(location.search);
const me = given.get("window");
const tell = (what, account, more = {}) =>
  fetch("/told", { method: "POST", body: JSON.stringify({ window: me, what, account, ...more }) });
const tasks = [];
for (const name of ["kept", "left"]) tasks.push(await Task.fromJson(await (await fetch(`/${name}.json`)).json()));

async function use(account) {
  const leaves = account % 3 === 2;
  const task = tasks[Number(leaves)];
  const ledger = new IndexedDBLedger(`account-${account}`);
  if (given.has("make")) return ledger.update(() => {});
  const client = new Client(given.get("server"), { tasks: [task], ledger, interval: 0.1 });
  const state = async () => ({
    spent: Math.round((await client.budget(task.name)).epsilon / task.epsilon),
    optedOut: await ledger.update(({ optedOut }) => optedOut),
    ...(await client.counters()),
  });
  if (given.has("finish")) {
    await client.flush(60);
    return tell("finished", account, await state());
  }
  await tell("opened", account, await state());
  const optsOutAfter = leaves && me === "b" ? (account * 7) % 17 : Infinity;
  let granted = 0;
  while (granted < optsOutAfter && (await client.report(task.name, 12.5))) {
    granted++;
    await tell("granted", account);
  }
  if (optsOutAfter < Infinity) {
    await client.optOut();
    await tell("opted-out", account, await state());
  }
  await client.report(task.name, 12.5); // is refused; otherwise, the figures would show it
  await client.flush(5);
  await client.close(0);
  await tell("done", account, await state());
}

for (let account = Number(given.get("first")); account <= Number(given.get("last")); account++) {
  try {
    await use(account);
  } catch (error) {
    await tell(String(error).includes("the account is lost") ? "lost" : String(error), account);
  }
}
await tell("ended", null);
