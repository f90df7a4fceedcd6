// The filter by state, rule and text, links into closed files, and the choice of a light or dark page.
(() => {
  "use strict";

  const form = document.getElementById("filter");
  const told = form.querySelector("output");
  const items = [...document.querySelectorAll("[data-code]")];
  const groups = [...document.querySelectorAll("[data-group]")];

  // What is said of an item, and the file that it is in.
  const told_of = new Map();
  const words = (item) => {
    if (!told_of.has(item)) {
      const around = item.closest("details, article")?.querySelector("h3")?.textContent ?? "";
      told_of.set(item, `${around} ${item.textContent}`.toLowerCase());
    }
    return told_of.get(item);
  };

  const filter = () => {
    const data = new FormData(form);
    const states = new Set(data.getAll("state"));
    const code = data.get("code");
    const sought = data.get("text").trim().toLowerCase();
    const all = states.size === form.querySelectorAll("[name=state]").length && code === "" && sought === "";
    let shown = 0;
    for (const item of items) {
      const fits =
        states.has(item.dataset.state) &&
        (code === "" || item.dataset.code.split(" ").includes(code)) &&
        (sought === "" || words(item).includes(sought));
      item.hidden = !fits;
      if (fits) shown += 1;
    }
    for (const group of groups) {
      group.hidden = !all && !group.querySelector("[data-code]:not([hidden])");
    }
    told.textContent = all ? "" : `${shown} of ${items.length} ${form.dataset.unit} shown`;
  };
  form.addEventListener("input", filter);
  form.addEventListener("reset", () => setTimeout(filter));
  form.addEventListener("submit", (event) => event.preventDefault());
  form.hidden = false;
  filter(); // a browser keeps the boxes as they were before a reload

  // A link to a line in a closed or hidden file opens it first.
  const reveal = () => {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!target) return;
    for (let around = target; around; around = around.parentElement) {
      if ("group" in around.dataset) around.hidden = false;
      if (around.matches("details")) around.open = true;
    }
    target.scrollIntoView({ block: target.matches(".line") ? "center" : "start" });
  };
  addEventListener("hashchange", reveal);
  if (location.hash) reveal();

  const themes = ["automatic", "light", "dark"];
  const button = document.getElementById("theme");
  const stored = () => {
    try {
      return localStorage.getItem("ampify-theme");
    } catch {
      return null; // a page opened from a file may have no storage
    }
  };
  const show = (theme) => {
    document.documentElement.dataset.theme = theme;
    button.textContent = `Theme: ${theme}`;
  };
  button.addEventListener("click", () => {
    const theme = themes[(themes.indexOf(document.documentElement.dataset.theme) + 1) % themes.length];
    show(theme);
    try {
      localStorage.setItem("ampify-theme", theme);
    } catch {
      // Then the choice lasts as long as the page.
    }
  });
  show(themes.includes(stored()) ? stored() : "automatic");
  button.hidden = false;
})();
