"use strict";
// The dark colours stand in a style element of their own; its media attribute switches them.
(function () {
  const root = document.documentElement;
  const dark = document.getElementById("dark");
  const media = { auto: dark.media, dark: "screen", light: "not all" };
  let choice = "auto";
  // Some browsers give a page that was opened from disk no storage.
  try { choice = localStorage.getItem("renorm-theme") || "auto"; } catch (error) { choice = "auto"; }
  root.classList.add("js");
  function apply() {
    dark.media = media[choice];
    const button = document.querySelector(".theme");
    if (button) button.textContent = "Theme: " + choice;
    document.dispatchEvent(new Event("themechange"));
  }
  apply();
  document.addEventListener("DOMContentLoaded", function () {
    apply();
    document.querySelector(".theme").addEventListener("click", function () {
      const names = Object.keys(media);
      choice = names[(names.indexOf(choice) + 1) % names.length];
      try { localStorage.setItem("renorm-theme", choice); } catch (error) { /* only this visit */ }
      apply();
    });
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", apply);
})();
