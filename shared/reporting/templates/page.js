"use strict";
(function () {
  const all = (selector, within) => Array.from((within || document).querySelectorAll(selector));
  const views = new Map();

  // Charts take their colours from the variables of the style sheet.
  function config(width) {
    const style = getComputedStyle(document.documentElement);
    const get = (name) => style.getPropertyValue(name).trim();
    const ink = get("--ink"), muted = get("--muted"), line = get("--line");
    return {
      background: null,
      font: get("--font"),
      range: { category: get("--series").split(",").map((color) => color.trim()) },
      title: { color: muted, font: get("--font") },
      text: { color: ink },
      axis: {
        labelColor: muted, titleColor: ink, domainColor: line, tickColor: line,
        gridColor: get("--grid"),
      },
      legend: { labelColor: ink, titleColor: ink, columns: Math.max(2, Math.floor(width / 128)) },
    };
  }

  function draw(figure) {
    const spec = JSON.parse(figure.querySelector("script").textContent);
    const target = figure.querySelector(".live");
    const options = {
      mode: "vega-lite", renderer: "svg", actions: false, ast: true,
      config: config(target.clientWidth),
      tooltip: { theme: "custom" },
    };
    const old = views.get(figure);
    if (old) old.finalize();
    vegaEmbed(target, spec, options).then(function (result) {
      views.set(figure, result);
      target.dataset.drawn = "yes";
    }).catch(function (error) {
      // The still picture stays readable where a browser cannot draw the live one.
      console.error(error);
      target.hidden = true;
      figure.querySelector(".still").style.display = "block";
    });
  }

  function save(figure, kind) {
    views.get(figure).view.toImageURL(kind, 2).then(function (url) {
      const link = document.createElement("a");
      link.href = url;
      link.download = figure.id + "." + kind;
      link.click();
    });
  }

  for (const figure of all("figure.chart")) {
    // With scripts on, a browser keeps the content of noscript as text: it serves for printing.
    figure.querySelector(".still").innerHTML = figure.querySelector("noscript").textContent;
    for (const button of all(".save button", figure)) {
      button.addEventListener("click", () => save(figure, button.dataset.kind));
    }
  }
  const redraw = () => all("figure.chart").forEach(draw);
  redraw();
  document.addEventListener("themechange", redraw);

  // Pictures: the slider chooses which of the pictures of a cell is seen.
  for (const figure of all("figure.pictures")) {
    const slider = figure.querySelector("input"), output = figure.querySelector("output");
    if (!slider) continue;
    const names = all("option", figure).map((option) => option.label);
    slider.addEventListener("input", function () {
      output.textContent = names[slider.value];
      for (const frame of all("[data-frame]", figure)) {
        frame.hidden = frame.dataset.frame !== slider.value;
      }
    });
  }

  // Runs: a button opens a row's details, the filter hides what does not match.
  for (const button of all(".expand")) {
    button.addEventListener("click", function () {
      const open = button.closest("tbody").classList.toggle("open");
      button.setAttribute("aria-expanded", String(open));
    });
  }
  const text = document.getElementById("filter-text");
  const outcome = document.getElementById("filter-outcome");
  function filter() {
    const words = text.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const group of all(".group")) {
      let inGroup = 0;
      for (const run of all("tbody[data-run]", group)) {
        const fits = words.every((word) => run.dataset.run.includes(word)) &&
          (!outcome.value || run.dataset.outcome === outcome.value);
        run.hidden = !fits;
        inGroup += fits ? 1 : 0;
      }
      group.hidden = inGroup === 0;
      if (words.length || outcome.value) group.open = inGroup > 0;
      shown += inGroup;
    }
    document.getElementById("filter-count").textContent = shown + " runs shown";
  }
  text.addEventListener("input", filter);
  outcome.addEventListener("change", filter);

  // A link to a claim opens what stands behind it.
  function reveal() {
    const target = location.hash && document.getElementById(location.hash.slice(1));
    const details = target && target.querySelector("details");
    if (details) details.open = true;
  }
  addEventListener("hashchange", reveal);
  reveal();
})();
