// The console works without this script; it adds keys, the theme without a new page, and the browser's zone.
"use strict";

const root = document.documentElement;

const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
if (zone && !document.cookie.includes(`dueledger_zone=${zone}`)) {
  const secure = location.protocol === "https:" ? "; secure" : "";
  document.cookie = `dueledger_zone=${zone}; path=/; max-age=31536000; samesite=lax${secure}`;
}

// A link of `dueledger dev` has the key after #, which browsers send to nobody.
const signIn = document.querySelector("form[data-sign-in]");
if (signIn && location.hash.startsWith("#due_")) {
  signIn.elements.key.value = location.hash.slice(1);
  history.replaceState(null, "", location.pathname + location.search);
  signIn.requestSubmit();
}

function choose(name, value) {
  const form = document.querySelector(`form[data-choice="${name}"]`);
  if (!form) return;
  for (const button of form.querySelectorAll("button")) {
    button.setAttribute("aria-pressed", String(button.value === value));
  }
  const fields = new URLSearchParams(new FormData(form));
  fields.set(name, value);
  return fetch(form.action, { method: "POST", body: fields, redirect: "manual" });
}

document.addEventListener("click", (event) => {
  const button = event.target.closest('form[data-choice="theme"] button');
  if (!button) return;
  event.preventDefault();
  root.dataset.theme = button.value;
  choose("theme", button.value);
});

function nextTheme() {
  const themes = ["auto", "light", "dark"];
  const next = themes[(themes.indexOf(root.dataset.theme) + 1) % themes.length];
  root.dataset.theme = next;
  choose("theme", next);
}

// Rows that j and k go through.
function keyedRows() {
  return [...document.querySelectorAll("main tbody:not(.cells) tr:not(.group)")].filter((row) => !row.closest("details:not([open])"));
}

function moveRow(by) {
  const rows = keyedRows();
  if (!rows.length) return;
  const at = rows.findIndex((row) => row.classList.contains("at"));
  const next = at < 0 ? 0 : Math.min(Math.max(at + by, 0), rows.length - 1);
  rows[at]?.classList.remove("at");
  rows[next].classList.add("at");
  const link = rows[next].querySelector("a");
  link?.focus({ preventScroll: true });
  rows[next].scrollIntoView({ block: "nearest" });
}

// Rows that are selected: their ids are copied, as commands take them; what has no id gives its first column.
const selection = document.querySelector(".selection");

function idOf(row) {
  const cell = row.querySelector("th");
  return cell?.querySelector("a")?.getAttribute("href").match(/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/)?.[0] ?? cell?.textContent.trim();
}

function selectRows(rows) {
  rows.forEach((row) => row.classList.toggle("selected"));
  const count = document.querySelectorAll("tr.selected").length;
  selection.querySelector("[role=status]").textContent = `${count} selected`;
  selection.hidden = count === 0;
}

selection?.addEventListener("click", (event) => {
  const rows = [...document.querySelectorAll("tr.selected")];
  if (event.target.closest("[data-copy]")) navigator.clipboard?.writeText(rows.map(idOf).join(" "));
  if (event.target.closest("[data-clear]")) selectRows(rows);
});

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.closest("input, select, textarea, [contenteditable]")) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  const search = document.querySelector("input[type=search]");
  switch (event.key) {
    case "/":
      if (!search) return;
      search.focus();
      break;
    case "?":
      document.getElementById("keys").showModal();
      break;
    case "j":
      moveRow(1);
      break;
    case "k":
      moveRow(-1);
      break;
    case "x":
      selectRows([...document.querySelectorAll("tr.at")]);
      break;
    case "t":
      nextTheme();
      break;
    default:
      return;
  }
  event.preventDefault();
});

// Tab reaches one cell of each row of a strip or calendar; arrow keys go on from it, to those that lead somewhere.
const CELL = ".cells td a";

function cellsOf(row) {
  return [...row.querySelectorAll("td a")];
}

function cellInRow(from, side) {
  const place = from.parentElement.cellIndex;
  const away = (cell) => Math.abs(cell.parentElement.cellIndex - place);
  let row = from.closest("tr")[side];
  while (row && !cellsOf(row).length) row = row[side];
  return row && cellsOf(row).reduce((nearest, cell) => (away(cell) < away(nearest) ? cell : nearest));
}

function nextCell(from, key) {
  const cells = cellsOf(from.closest("tr"));
  const at = cells.indexOf(from);
  switch (key) {
    case "ArrowLeft":
      return cells[at - 1];
    case "ArrowRight":
      return cells[at + 1];
    case "ArrowUp":
      return cellInRow(from, "previousElementSibling");
    case "ArrowDown":
      return cellInRow(from, "nextElementSibling");
    case "Home":
      return cells[0];
    case "End":
      return cells.at(-1);
  }
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.shiftKey || !event.target.matches(CELL)) return;
  const next = nextCell(event.target, event.key);
  if (!next) return;
  event.preventDefault();
  next.focus({ preventScroll: true });
  next.scrollIntoView({ block: "nearest", inline: "center" });
});

// The row's stop is the cell at which the keys were last. What its title says to who points at it is written below.
document.addEventListener("focusin", (event) => {
  const cell = event.target.closest(CELL);
  if (!cell) return;
  const stops = cellsOf(cell.closest("tr")).filter((each) => each.tabIndex === 0);
  if (cell.tabIndex !== 0) stops.forEach((each) => { each.tabIndex = -1; });
  cell.tabIndex = 0;
  const words = cell.closest("section")?.querySelector(".at-cell");
  if (!words) return;
  words.firstElementChild.textContent = cell.title;
  words.hidden = false;
});

// What is copied has its times as ISO 8601, in place of how long ago each was, and rows as a spreadsheet takes them.
document.addEventListener("copy", (event) => {
  const selected = getSelection();
  if (!selected.rangeCount || event.target.closest?.("input, textarea")) return;
  const copy = selected.getRangeAt(0).cloneContents();
  const times = copy.querySelectorAll("time");
  if (!times.length) return;
  copy.querySelectorAll(".exact").forEach((each) => each.remove());
  times.forEach((each) => { each.textContent = each.dateTime; });
  const text = (node) => node.textContent.trim().replace(/\s+/g, " ");
  const rows = [...copy.querySelectorAll("tr")].map((row) => [...row.children].map(text).join("\t"));
  event.clipboardData.setData("text/plain", rows.length ? rows.join("\n") : text(copy));
  event.preventDefault();
});

// Where a strip does not fit, its present is in the middle, until somebody scrolls it; of a calendar of the past it is near the end.
function showPresent() {
  document.querySelectorAll(".strip th.now, .past-days th:not(.ahead) + .ahead").forEach((present) => {
    const frame = present.closest(".wide");
    frame.scrollLeft = present.offsetLeft - frame.clientWidth * (present.matches(".now") ? 0.5 : 0.85);
  });
}

showPresent();

// What is next counts down between two loads of the page, by the ledger's clock when it was made.
const ledgerAhead = document.body.dataset.now ? Date.parse(document.body.dataset.now) - Date.now() : 0;

function spanOf(seconds) {
  const [days, hours, minutes] = [86400, 3600, 60].map((unit) => Math.floor(seconds / unit));
  if (days) return `${days} d ${hours % 24} h`;
  if (hours) return `${hours} h ${minutes % 60} min`;
  return minutes ? `${minutes} min ${seconds % 60} s` : `${seconds} s`;
}

function countDown() {
  for (const each of document.querySelectorAll("time[data-until]")) {
    const seconds = Math.round((Date.parse(each.dateTime) - Date.now() - ledgerAhead) / 1000);
    each.textContent = seconds > 0 ? `in ${spanOf(seconds)}` : "now";
  }
}

if (document.querySelector("time[data-until]")) setInterval(countDown, 1000);

// An editor shows what its text would change, a moment after the last key.
const editor = document.querySelector("form[data-preview]");
const PREVIEW_MILLISECONDS = 600;
let previewTimer = 0;
let previewed = 0;

async function preview() {
  const number = ++previewed;
  const answer = await fetch(editor.dataset.preview, {
    method: "POST",
    body: new URLSearchParams(new FormData(editor)),
    headers: { Accept: "text/html" },
  }).catch(() => null);
  if (!answer?.ok || number !== previewed) return;
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  const fresh = page.querySelector("[data-preview-of]");
  if (fresh) document.querySelector("[data-preview-of]").replaceChildren(...fresh.childNodes);
}

editor?.addEventListener("input", () => {
  clearTimeout(previewTimer);
  previewTimer = setTimeout(preview, PREVIEW_MILLISECONDS);
});

// The search field suggests business keys, a moment after the last key.
const find = document.querySelector("input[data-suggest]");
const SUGGEST_MILLISECONDS = 250;
let suggestTimer = 0;

async function suggest() {
  const text = find.value.trim();
  if (!text) return;
  const answer = await fetch(`${find.dataset.suggest}?${new URLSearchParams({ q: text })}`).catch(() => null);
  if (!answer?.ok || answer.redirected || text !== find.value.trim()) return;
  const keys = await answer.json();
  find.list.replaceChildren(...keys.map((key) => new Option("", key)));
}

find?.addEventListener("input", () => {
  clearTimeout(suggestTimer);
  suggestTimer = setTimeout(suggest, SUGGEST_MILLISECONDS);
});

// A file is read here: its text is a field like any other.
const drop = document.querySelector("form[data-drop]");

async function take(file) {
  if (!file) return;
  drop.elements.text.value = await file.text();
  drop.elements.file_name.value = file.name;
  drop.requestSubmit(drop.querySelector("button:not([formaction])"));
}

drop?.querySelector("input[type=file]").addEventListener("change", (event) => take(event.target.files[0]));
for (const name of ["dragover", "dragleave", "drop"]) {
  drop?.addEventListener(name, (event) => {
    event.preventDefault();
    drop.classList.toggle("over", name === "dragover");
    if (name === "drop") take(event.dataTransfer.files[0]);
  });
}

// Live: one stream a tab says which tables changed. A page loads itself again, as often as the service permits, and
// replaces its live parts; never while something is edited, selected or under the pointer, and not while it is hidden.

const pulse = document.querySelector("[data-pulse]");
const sections = document.querySelectorAll("[data-live]");
const changes = document.querySelector("[data-changed]");
const counts = changes?.querySelector("[data-count]");
const POLL_SECONDS = 15;
const seen = new Map();
let stream = null;
let every = 2;
let loadedAt = Date.now();
let isStale = false;
let isLoading = false;
let isPaused = false;
let isChanged = false;

function watches(element, table) {
  return (element.dataset.live ?? element.dataset.changed).split(" ").includes(table);
}

function isBusy() {
  const at = document.activeElement;
  return Boolean(
    at?.closest("main form") ||
      document.querySelector("main details[open] form, dialog[open]") ||
      document.querySelector("main tbody:hover, tr.selected") ||
      String(getSelection()),
  );
}

// What a row says, but for its times: how long ago each was changes by itself.
function textOf(row) {
  const copy = row.cloneNode(true);
  copy.querySelectorAll("time").forEach((each) => each.remove());
  return copy.textContent;
}

function rowsOf(page) {
  return [...page.querySelectorAll("main tbody tr:not(.group)")].map(textOf);
}

// What tells a row from others: where it leads, or what it says.
function nameOf(row) {
  return row.querySelector("a")?.getAttribute("href") ?? textOf(row);
}

// Returns what marks again, in rows that are new, the one at which j and k are; if it is gone, the one before it.
function keepMark() {
  const rows = keyedRows();
  const place = rows.findIndex((row) => row.classList.contains("at"));
  const marked = rows[place];
  if (!marked) return () => {};
  const name = nameOf(marked);
  const number = rows.filter((row) => nameOf(row) === name).indexOf(marked);
  const hasFocus = marked.contains(document.activeElement);
  return () => {
    if (marked.isConnected) return;
    const fresh = keyedRows();
    const same = fresh.filter((row) => nameOf(row) === name);
    const row = same[Math.min(number, same.length - 1)];
    (row ?? fresh[place - 1])?.classList.add("at");
    if (hasFocus) row?.querySelector("a")?.focus({ preventScroll: true });
  };
}

// Returns what scrolls again, in parts of the page that are new, what is wider than the screen.
function keepScrolls() {
  const frames = () => [...document.querySelectorAll("main [data-live] :is(.wide, .scroll)")];
  const places = new Map(frames().map((each) => [each.getAttribute("aria-label"), each.scrollLeft]));
  const hadStrip = document.querySelector(".strip");
  return () => {
    if (!hadStrip) showPresent();
    frames().forEach((each) => { each.scrollLeft = places.get(each.getAttribute("aria-label")) ?? each.scrollLeft; });
  };
}

// A list is never moved under its reader: it says how many of its rows would be others.
function announce(page) {
  const [shown, fresh] = [rowsOf(document), rowsOf(page)];
  const [came, left] = [[fresh, shown], [shown, fresh]].map(([rows, others]) => rows.filter((each) => !others.includes(each)).length);
  const count = Math.max(came, left);
  counts.textContent = count === 1 ? "1 row differs" : `${count} rows differ`;
  changes.hidden = count === 0;
}

function show(state) {
  if (!pulse) return;
  pulse.hidden = false;
  pulse.dataset.pulse = state;
  pulse.setAttribute("aria-pressed", String(isPaused));
  pulse.textContent = { live: "Live", paused: "Paused", polling: `Each ${POLL_SECONDS} s` }[state];
}

async function load() {
  isLoading = true;
  loadedAt = Date.now();
  isStale = false;
  isChanged = false;
  try {
    const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
    if (answer.redirected || !answer.ok) {
      if (answer.redirected) location.reload();
      return;
    }
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    if (counts) {
      announce(page);
      return;
    }
    const fresh = page.querySelectorAll("[data-live]");
    if (fresh.length !== sections.length || isBusy()) return;
    const focused = document.activeElement?.getAttribute("href");
    const restores = [keepMark(), keepScrolls()];
    sections.forEach((section, number) => {
      const open = [...section.querySelectorAll("details")].map((each) => each.open);
      section.replaceChildren(...fresh[number].childNodes);
      section.querySelectorAll("details").forEach((each, at) => { each.open = open[at] ?? false; });
    });
    if (focused) document.querySelector(`main a[href="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
    restores.forEach((restore) => restore());
  } catch {
    isStale = isChanged = true; // the service is away; the stream says when it is back
  } finally {
    isLoading = false;
  }
}

function listen() {
  stream = new EventSource(`${document.body.dataset.root}/live`);
  stream.onmessage = (event) => {
    const { every: seconds, tables } = JSON.parse(event.data);
    every = seconds;
    for (const [table, digest] of Object.entries(tables)) {
      const isNews = seen.has(table) && seen.get(table) !== digest;
      seen.set(table, digest);
      if (!isNews) continue;
      if ([...sections].some((section) => watches(section, table))) isStale = true;
      if (!changes || !watches(changes, table)) continue;
      isChanged = true;
      if (!counts) changes.hidden = false;
    }
  };
}

function tick() {
  if (document.hidden) return;
  const isLive = stream?.readyState === EventSource.OPEN;
  const age = (Date.now() - loadedAt) / 1000;
  const isPollDue = age >= Math.max(POLL_SECONDS, every);
  const isDue = (isStale && age >= every) || isPollDue;
  const busy = isPaused || isBusy();
  show(busy ? "paused" : isLive ? "live" : "polling");
  if (stream?.readyState === EventSource.CLOSED && age >= POLL_SECONDS) listen();
  const isListDue = (isChanged && age >= every) || (!isLive && isPollDue);
  if (counts && isListDue && !isPaused && !isLoading) load();
  if (isDue && !busy && !isLoading && sections.length > 1) load();
}

if (pulse && (sections.length > 1 || changes)) {
  listen();
  setInterval(tick, 1000);
  pulse.addEventListener("click", () => {
    isPaused = !isPaused;
    isStale = true;
    tick();
  });
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) {
      stream?.close();
      return;
    }
    listen();
    isStale = true;
  });
}
