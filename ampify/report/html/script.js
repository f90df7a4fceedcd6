// The filter by state and rule, links into closed files, and the choice of a light or dark page.
(() => {
  "use strict";

  const form = document.getElementById("filter");
  const told = form.querySelector("output");
  const items = [...document.querySelectorAll("[data-code]")];
  const groups = [...document.querySelectorAll("[data-group]")];

  const filter = () => {
    const data = new FormData(form);
    const states = new Set(data.getAll("state"));
    const code = data.get("code");
    const all = states.size === form.querySelectorAll("[name=state]").length && code === "";
    let shown = 0;
    for (const item of items) {
      const fits = states.has(item.dataset.state) && (code === "" || item.dataset.code === code);
      item.hidden = !fits;
      if (fits) shown += 1;
    }
    for (const group of groups) {
      group.hidden = !all && !group.querySelector("[data-code]:not([hidden])");
    }
    told.textContent = all ? "" : `${shown} of ${items.length} places shown`;
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
