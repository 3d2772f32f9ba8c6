// The console works without this script; it adds keys, the theme without a new page, and the browser's zone.
"use strict";

const root = document.documentElement;

const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
if (zone && !document.cookie.includes(`dueledger_zone=${zone}`)) {
  document.cookie = `dueledger_zone=${zone}; path=/; max-age=31536000; samesite=lax`;
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

function moveRow(by) {
  const rows = [...document.querySelectorAll("main tbody tr:not(.group)")];
  if (!rows.length) return;
  const at = rows.findIndex((row) => row.classList.contains("at"));
  const next = at < 0 ? 0 : Math.min(Math.max(at + by, 0), rows.length - 1);
  rows[at]?.classList.remove("at");
  rows[next].classList.add("at");
  const link = rows[next].querySelector("a");
  link?.focus({ preventScroll: true });
  rows[next].scrollIntoView({ block: "nearest" });
}

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
    case "t":
      nextTheme();
      break;
    default:
      return;
  }
  event.preventDefault();
});
