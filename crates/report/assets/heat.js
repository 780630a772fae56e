"use strict";
// The whole network over time: each link is a cell of a canvas, in the colour of what it did in the chosen step.
(() => {
const {bytes, number, timeUnit} = window.knee;
const dark = matchMedia("(prefers-color-scheme:dark)");
// From nothing to most, darker on white and brighter on black: lightness alone tells them apart.
const STOPS = {
  light: [[240, 241, 245], [248, 205, 128], [226, 118, 62], [160, 36, 82], [52, 14, 78]],
  dark: [[37, 38, 46], [96, 34, 110], [184, 56, 92], [242, 136, 64], [252, 230, 150]],
};
const WORDS = {sent: "utilisation", marks: "marks", drops: "drops"};
const HOTTEST = 5;

function ramp(share) {
  const stops = STOPS[dark.matches ? "dark" : "light"], at = Math.min(1, Math.max(0, share)) * (stops.length - 1);
  const i = Math.min(stops.length - 2, Math.floor(at)), part = at - i;
  return `rgb(${stops[i].map((c, k) => Math.round(c + (stops[i + 1][k] - c) * part)).join(",")})`;
}

const element = (name, className, parent) => {
  const made = document.createElement(name);
  if (className) made.className = className;
  if (parent) parent.append(made);
  return made;
};

// A canvas of so many CSS pixels, sharp on any screen.
function sized(canvas, width, height) {
  const ratio = window.devicePixelRatio || 1;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  canvas.style.width = width + "px";
  canvas.style.height = height + "px";
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  return context;
}

function heat(root) {
  const data = JSON.parse(root.querySelector("script").textContent), all = data.links.length;
  const what = root.querySelector(".what"), which = root.querySelector(".which"), slider = root.querySelector("input");
  const play = root.querySelector(".play"), when = root.querySelector(".when"), said = root.querySelector(".said");
  const strip = root.querySelector(".strip"), scale = root.querySelector(".scale"), hottest = root.querySelector(".hottest");
  const holder = root.querySelector(".tiers");
  let run, values, most, chosen = null, timer = null;
  const decoded = data.runs.map(() => ({}));

  // Where each tier begins among the links, and its picture.
  let first = 0;
  const tiers = data.tiers.map(tier => {
    const links = tier.columns.reduce((sum, [, count]) => sum + count, 0);
    const figure = element("figure", "tier", holder), title = element("h4", "", figure);
    title.textContent = `${tier.name}, ${links} link${links === 1 ? "" : "s"}`;
    const canvas = element("canvas", "", figure);
    canvas.tabIndex = 0;
    canvas.setAttribute("role", "img");
    const made = {...tier, first, links, canvas, places: [], rows: Math.max(...tier.columns.map(([, count]) => count))};
    first += links;
    return made;
  });

  function choose() {
    const nth = Math.max(0, which.selectedIndex), kind = what.value;
    run = data.runs[nth];
    decoded[nth][kind] ??= run[kind] ? new Uint8Array(bytes(run[kind])) : new Uint8Array(run.steps * all);
    values = decoded[nth][kind];
    most = kind === "sent" ? 250 : values.reduce((a, b) => Math.max(a, b), 0);
    slider.max = run.steps - 1;
  }

  const step = () => Math.min(+slider.value, run.steps - 1);
  const at = link => values[step() * all + link];
  const share = value => value === 0 ? 0 : what.value === "sent" ? value / 250 : 0.25 + 0.75 * value / most;
  const real = value => what.value === "sent" ? value / 2.5 : Math.round(2 ** (value / 16) - 1);
  const words = value => what.value === "sent" ? number(real(value)) + " %" : `${number(real(value))} ${WORDS[what.value]}`;

  function time() {
    const [unit, factor] = timeUnit(run.end);
    const from = step() * run.step, to = Math.min(run.end, from + run.step);
    return `${number(from * factor)} to ${number(to * factor)} ${unit}`;
  }

  function drawTier(tier) {
    const width = Math.max(200, holder.clientWidth), columns = tier.columns.length;
    const cell = Math.max(2, Math.min(28, Math.floor(width / columns)));
    const high = Math.max(2, Math.min(cell, tier.rows > 48 ? 4 : tier.rows > 16 ? 7 : 12)), gap = cell >= 5 ? 1 : 0;
    const band = Math.max(1, Math.floor(width / cell)), bands = Math.ceil(columns / band), bandHigh = tier.rows * high + 6;
    const context = sized(tier.canvas, Math.min(width, band * cell), bands * bandHigh);
    tier.places = [];
    let link = tier.first, sum = 0, top = tier.first;
    tier.columns.forEach(([, count], column) => {
      const x = column % band * cell, y = Math.floor(column / band) * bandHigh;
      for (let row = 0; row < count; row++, link++) {
        const value = at(link);
        sum += real(value);
        if (value > at(top)) top = link;
        context.fillStyle = ramp(share(value));
        context.fillRect(x, y + row * high, cell - gap, high - (high >= 5 ? 1 : 0));
        tier.places.push([x, y + row * high, column]);
      }
    });
    tier.cell = cell;
    tier.high = high;
    if (chosen !== null && chosen >= tier.first && chosen < tier.first + tier.links) {
      const [x, y] = tier.places[chosen - tier.first];
      context.strokeStyle = getComputedStyle(document.documentElement).getPropertyValue("--ink");
      context.lineWidth = 2;
      context.strokeRect(x, y, Math.max(4, cell - gap), Math.max(4, high));
    }
    const sums = what.value === "sent" ? `mean ${number(sum / tier.links)} %` : `${number(sum)} in all`;
    tier.canvas.setAttribute("aria-label", `${WORDS[what.value]} of ${tier.name}, ${tier.links} links, ${time()}: ${sums}, ` +
      `most ${data.links[top]} with ${words(at(top))}`);
  }

  // The largest value of each tier in every step.
  function drawStrip() {
    const width = Math.max(200, holder.clientWidth), high = 10;
    const context = sized(strip, width, tiers.length * high + 2);
    tiers.forEach((tier, row) => {
      for (let s = 0; s < run.steps; s++) {
        let largest = 0;
        for (let link = tier.first; link < tier.first + tier.links; link++) largest = Math.max(largest, values[s * all + link]);
        context.fillStyle = ramp(share(largest));
        const x = Math.floor(s / run.steps * width);
        context.fillRect(x, row * high, Math.ceil((s + 1) / run.steps * width) - x, high - 1);
      }
    });
    context.strokeStyle = getComputedStyle(document.documentElement).getPropertyValue("--ink");
    context.lineWidth = 2;
    context.strokeRect(step() / run.steps * width, 0, Math.max(3, width / run.steps), tiers.length * high);
    strip.setAttribute("aria-label", `Largest ${WORDS[what.value]} of a link over time, a row for each of ` +
      tiers.map(tier => tier.name).join(", "));
  }

  function drawScale() {
    scale.textContent = "";
    const marks = what.value === "sent" ? [0, 0.25, 0.5, 0.75, 1].map(s => [s, number(s * 100) + " %"])
      : most === 0 ? [[0, "none"]] : most <= 16 ? [[0, "0"], [1, "1"]] : [[0, "0"], [share(16), "1"], [share((16 + most) / 2), number(real((16 + most) / 2))], [1, number(real(most))]];
    for (const [s, text] of marks) {
      const key = element("span", "key", scale), patch = element("i", "", key);
      patch.style.background = ramp(s);
      key.append(text);
    }
  }

  function say() {
    if (chosen === null) return said.textContent = "";
    const tier = tiers.find(tier => chosen < tier.first + tier.links);
    said.textContent = `${data.links[chosen]} (${tier.name}), ${time()}: ${words(at(chosen))}`;
  }

  function list() {
    const order = [];
    for (let link = 0; link < all; link++) {
      if (at(link) === 0) continue;
      const place = order.findIndex(other => at(link) > at(other));
      if (place >= 0) order.splice(place, 0, link); else if (order.length < HOTTEST) order.push(link);
      if (order.length > HOTTEST) order.pop();
    }
    hottest.textContent = order.length === 0 ? `No ${WORDS[what.value]} in this step.`
      : "Most: " + order.map(link => `${data.links[link]} ${words(at(link))}`).join(", ");
  }

  function show() {
    when.textContent = time();
    slider.setAttribute("aria-valuetext", time());
    tiers.forEach(drawTier);
    drawStrip();
    list();
    say();
  }

  function renew() { choose(); drawScale(); show(); }
  function pick(link) { chosen = link; tiers.forEach(drawTier); say(); }

  tiers.forEach(tier => {
    const found = event => {
      const box = tier.canvas.getBoundingClientRect(), x = event.clientX - box.left, y = event.clientY - box.top;
      const place = tier.places.findIndex(([px, py]) => x >= px && x < px + tier.cell && y >= py && y < py + tier.high);
      if (place >= 0) pick(tier.first + place);
    };
    tier.canvas.addEventListener("mousemove", found);
    tier.canvas.addEventListener("click", found);
    tier.canvas.addEventListener("focus", () => {
      if (chosen === null || chosen < tier.first || chosen >= tier.first + tier.links) pick(tier.first);
    });
    tier.canvas.addEventListener("keydown", event => {
      const here = Math.max(0, (chosen ?? tier.first) - tier.first), column = tier.places[here][2];
      const begin = tier.columns.slice(0, column).reduce((sum, [, count]) => sum + count, 0), row = here - begin;
      const across = by => {
        const to = column + by;
        if (to < 0 || to >= tier.columns.length) return here;
        const start = tier.columns.slice(0, to).reduce((sum, [, count]) => sum + count, 0);
        return start + Math.min(row, tier.columns[to][1] - 1);
      };
      const next = {ArrowDown: () => here + 1, ArrowUp: () => here - 1, ArrowRight: () => across(1), ArrowLeft: () => across(-1),
        Home: () => 0, End: () => tier.links - 1}[event.key];
      if (!next) return;
      event.preventDefault();
      pick(tier.first + Math.min(tier.links - 1, Math.max(0, next())));
    });
  });
  strip.addEventListener("click", event => {
    const box = strip.getBoundingClientRect();
    slider.value = Math.floor((event.clientX - box.left) / box.width * run.steps);
    show();
  });
  const stop = () => { clearInterval(timer); timer = null; play.textContent = "Play"; };
  play.addEventListener("click", () => {
    if (timer) return stop();
    if (step() === run.steps - 1) slider.value = 0;
    play.textContent = "Pause";
    timer = setInterval(() => {
      slider.value = step() + 1;
      show();
      if (step() === run.steps - 1) stop();
    }, 120);
  });
  slider.addEventListener("input", show);
  what.addEventListener("change", renew);
  which.addEventListener("change", renew);
  dark.addEventListener("change", renew);
  let width = holder.clientWidth;
  new ResizeObserver(() => {
    if (holder.clientWidth === width) return;
    width = holder.clientWidth;
    show();
  }).observe(holder);
  renew();
  root.heat = {value: link => words(at(link)), steps: () => run.steps, chosen: () => chosen};
}

const roots = [...document.querySelectorAll(".heat")];
const seen = new IntersectionObserver(entries => entries.filter(entry => entry.isIntersecting).forEach(entry => {
  seen.unobserve(entry.target);
  heat(entry.target);
}), {rootMargin: "600px"});
roots.forEach(root => seen.observe(root));
addEventListener("beforeprint", () => roots.forEach(root => root.heat || heat(root)));
})();
