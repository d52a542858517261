// Offers the versions of the site that lie beside this one: ../versions.js lists them, also from a file.
"use strict";

addEventListener("DOMContentLoaded", () => {
  const select = document.getElementById("versions");
  const shown = select.value;
  for (const version of window.ARCWISE_VERSIONS ?? []) {
    if (version !== shown) select.add(new Option(version));
  }
  select.addEventListener("change", () => {
    const root = new URL(document.documentElement.dataset.content_root, location.href);
    location.href = new URL(`../${select.value}/index.html`, root).href;
  });
});
