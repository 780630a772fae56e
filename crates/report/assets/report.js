"use strict";
// What moves in the page: plots over time, and the buttons that save a plot.
(() => {
const style = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const bytes = text => Uint8Array.from(atob(text), c => c.charCodeAt(0)).buffer;

function save(name, type, data) {
  const a = document.createElement("a");
  a.href = URL.createObjectURL(new Blob([data], {type}));
  a.download = name;
  a.click();
  setTimeout(() => URL.revokeObjectURL(a.href), 10000);
}

function saveAs(kind, name, svg, csv) {
  if (kind === "csv") return save(name + ".csv", "text/csv", csv());
  const text = svg();
  if (kind === "svg") return save(name + ".svg", "image/svg+xml", text);
  const image = new Image();
  image.onload = () => {
    const canvas = document.createElement("canvas");
    canvas.width = image.width * 2;
    canvas.height = image.height * 2;
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    canvas.toBlob(blob => save(name + ".png", "image/png", blob));
  };
  image.src = "data:image/svg+xml;charset=utf-8," + encodeURIComponent(text);
}

const xml = text => text.replace(/[&<>"]/g, c => ({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;"})[c]);

// An SVG file of pieces that flow in rows, as --figures writes it.
function svgFile(title, rows) {
  const margin = 14, gap = 14, widest = 1060;
  let y = margin + 26, width = margin + title.length * 8.5, body = "";
  body += `<text x="${margin}" y="${margin + 14}" class="b" style="font-size:13px">${xml(title)}</text>`;
  for (const row of rows) {
    let x = margin, high = 0;
    for (const [w, h, inner] of row) {
      if (x > margin && x + w > widest) { y += high + gap; x = margin; high = 0; }
      body += `<svg x="${x}" y="${y}" width="${w}" height="${h}" viewBox="0 0 ${w} ${h}">${inner}</svg>`;
      x += w + gap;
      high = Math.max(high, h);
      width = Math.max(width, x - gap);
    }
    if (row.length) y += high + 8;
  }
  width += margin;
  const css = document.getElementById("svg-style").content.textContent;
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${y + 6}" viewBox="0 0 ${width} ${y + 6}">` +
    `<style>${css}</style><rect width="100%" height="100%" fill="#fff"/>${body}</svg>\n`;
}

// ---- tables ----

// Rows of a CSV file; a cell in quotes may hold commas and line ends.
function cells(csv) {
  const rows = [[]], plain = /[^,\n]*/y;
  let at = 0;
  while (at < csv.length) {
    let cell = "";
    if (csv[at] === '"') {
      for (at++; at < csv.length; at++) {
        if (csv[at] !== '"') cell += csv[at];
        else if (csv[at + 1] === '"') cell += csv[++at];
        else { at++; break; }
      }
    } else {
      plain.lastIndex = at;
      cell = plain.exec(csv)[0];
      at += cell.length;
    }
    rows[rows.length - 1].push(cell);
    if (csv[at] === "\n") rows.push([]);
    at++;
  }
  return rows.filter(row => row.length);
}

// More rows than this are a file and no table.
const MOST_ROWS = 5000;

// Shows the numbers of a plot below it, or hides them. A click on a heading sorts.
function toggleTable(button, frame, csv) {
  const shown = frame.querySelector(".numbers");
  button.setAttribute("aria-expanded", String(!shown));
  if (shown) return shown.remove();
  const [heads, ...all] = cells(csv());
  const holder = document.createElement("div");
  holder.className = "numbers";
  const bar = document.createElement("p");
  bar.className = "small";
  bar.textContent = all.length > MOST_ROWS ? `The first ${MOST_ROWS} of ${all.length} rows; CSV has all. ` : "";
  const copy = document.createElement("button");
  copy.type = "button";
  copy.textContent = "Copy";
  bar.append(copy);
  const scroll = document.createElement("div");
  scroll.className = "scroll";
  const table = document.createElement("table"), head = table.createTHead().insertRow(), body = table.createTBody();
  let rows = all.slice(0, MOST_ROWS);
  const isNumber = heads.map((_, i) => rows.every(row => row[i] === "" || row[i] != null && !isNaN(row[i])));
  const fill = () => {
    body.textContent = "";
    for (const row of rows) {
      const line = body.insertRow();
      heads.forEach((_, i) => {
        const cell = line.insertCell();
        cell.textContent = isNumber[i] && row[i] ? number(+row[i]) : row[i] ?? "";
        if (isNumber[i]) { cell.className = "n"; cell.title = row[i] ?? ""; }
      });
    }
  };
  heads.forEach((text, i) => {
    const th = document.createElement("th"), sort = document.createElement("button");
    sort.type = "button";
    sort.textContent = text;
    th.append(sort);
    if (isNumber[i]) th.className = "n";
    sort.addEventListener("click", () => {
      const falls = th.getAttribute("aria-sort") === "ascending";
      head.querySelectorAll("th").forEach(other => other.removeAttribute("aria-sort"));
      th.setAttribute("aria-sort", falls ? "descending" : "ascending");
      // What is empty comes last in either order.
      rows.sort((a, b) => {
        if (a[i] === "" || b[i] === "") return (a[i] === "") - (b[i] === "");
        const order = isNumber[i] ? a[i] - b[i] : a[i].localeCompare(b[i], "en", {numeric: true});
        return falls ? -order : order;
      });
      fill();
    });
    head.append(th);
  });
  copy.addEventListener("click", () => {
    // As spreadsheets take it.
    const text = [heads, ...rows].map(row => row.join("\t")).join("\n");
    const area = document.createElement("textarea");
    area.value = text;
    holder.append(area);
    area.select();
    copy.textContent = document.execCommand("copy") ? "Copied" : "Not copied";
    area.remove();
  });
  fill();
  scroll.append(table);
  holder.append(bar, scroll);
  frame.append(holder);
}

// ---- values under the pointer ----

const tip = document.createElement("div");
tip.className = "tip";
tip.hidden = true;
document.body.append(tip);
let pointed = null;

function point(to, x, y) {
  pointed?.classList.remove("on");
  pointed = to;
  tip.hidden = !to;
  if (!to) return;
  to.classList.add("on");
  tip.textContent = to.textContent;
  const room = document.documentElement.clientWidth - tip.offsetWidth - 8;
  tip.style.left = Math.max(8, Math.min(x + 14, room)) + scrollX + "px";
  tip.style.top = y + 16 + scrollY + "px";
}

// The nearest place that says something, if it is near.
function nearest(svg, x, y) {
  let best = null, least = 36;
  for (const spot of svg.querySelectorAll(".v")) {
    const box = spot.getBoundingClientRect();
    const far = Math.hypot(box.x + box.width / 2 - x, box.y + box.height / 2 - y);
    if (far < least) [best, least] = [spot, far];
  }
  return best;
}

for (const svg of document.querySelectorAll(".pieces svg")) {
  if (!svg.querySelector(".v")) continue;
  for (const kind of ["pointermove", "pointerdown"])
    svg.addEventListener(kind, event => point(nearest(svg, event.clientX, event.clientY), event.clientX, event.clientY));
  svg.addEventListener("pointerleave", () => point(null));
}

for (const figure of document.querySelectorAll("figure.chart")) {
  figure.querySelector(".save")?.addEventListener("click", event => {
    const kind = event.target.dataset.save;
    if (!kind) return;
    if (kind === "table") return toggleTable(event.target, figure, () => figure.querySelector(".csv").textContent);
    const piece = svg => [svg.viewBox.baseVal.width, svg.viewBox.baseVal.height, svg.innerHTML];
    const rows = () => [".legend svg", ".pieces svg"].map(of => [...figure.querySelectorAll(of)].map(piece));
    saveAs(kind, figure.id, () => svgFile(figure.dataset.title, rows()), () => figure.querySelector(".csv").textContent);
  });
}

// ---- series ----

function decoded(line, n) {
  const shares = new Uint16Array(bytes(line.y)), out = new Array(n);
  const step = (line.high - line.low) / 65534;
  for (let i = 0; i < n; i++) out[i] = shares[i] === 65535 ? null : line.low + shares[i] * step;
  return out;
}

const number = v => v == null ? "–" : v === 0 ? "0" : Math.abs(v) >= 1000 ? v.toFixed(0) : String(+v.toPrecision(4));

// How a legend's square shows a line's dashes.
const BORDERS = {"": "solid", "6 3": "dashed", "2 2.5": "dotted"};

function timeUnit(end) {
  return end >= 2 ? ["s", 1] : end >= 2e-3 ? ["ms", 1e3] : ["us", 1e6];
}

function draw(root, group, key, id) {
  const holder = root.querySelector(".plots");
  (root.plots || []).forEach(plot => plot.destroy());
  holder.textContent = "";
  const [unit, factor] = timeUnit(group.end);
  const axis = {stroke: style("--soft"), grid: {stroke: style("--grid"), width: 1}, ticks: {stroke: style("--grid"), width: 1},
    font: "11px system-ui, sans-serif"};
  root.plots = group.plots.map(plot => {
    const frame = document.createElement("div");
    frame.className = "plot";
    const bar = document.createElement("div");
    bar.className = "bar";
    const heading = document.createElement("h4");
    heading.textContent = plot.title + (plot.unit ? ", " + plot.unit : "");
    const buttons = document.createElement("span");
    buttons.className = "save";
    for (const kind of ["table", "svg", "png", "csv"]) {
      const button = document.createElement("button");
      button.type = "button";
      button.dataset.save = kind;
      button.textContent = kind === "table" ? "Table" : kind.toUpperCase();
      buttons.append(button);
    }
    bar.append(heading, buttons);
    frame.append(bar);
    holder.append(frame);
    const times = Array.from(new Float32Array(bytes(plot.x)), t => t * factor);
    const data = [times, ...plot.lines.map(line => decoded(line, times.length))];
    // Values that are names, as the modes of BBR.
    const named = plot.names.length > 0;
    const name = v => named && v != null ? plot.names[Math.round(v)] ?? "" : number(v);
    const least = Math.min(...plot.lines.map(line => line.low));
    const series = [{label: "t, " + unit, value: (u, v) => number(v)}, ...plot.lines.map(line => ({
      label: line.label, stroke: style("--k" + line.k), width: 1.4, spanGaps: true, points: {show: times.length < 40},
      dash: line.dash ? line.dash.split(" ").map(Number) : undefined, value: (u, v) => name(v),
      paths: named ? uPlot.paths.stepped({align: 1}) : undefined,
    }))];
    const u = new uPlot({
      width: Math.max(240, holder.clientWidth), height: 190, series,
      legend: {markers: {width: 2, dash: (u, i) => BORDERS[plot.lines[i - 1]?.dash] || "dashed"}},
      cursor: {sync: {key, scales: ["x", null]}, drag: {x: true, y: false}, points: {size: 6}},
      scales: {x: {time: false, range: (u, low, high) => low == null ? [0, group.end * factor] : [low, high]},
        // From zero: what hardly moves shall look so.
        y: {range: (u, low, high) => named ? [-0.2, plot.names.length - 0.8] : low == null ? [0, 1] : least >= 0 ? [0, high * 1.05 || 1]
          : low === high ? [low - (Math.abs(low) || 1) * 0.1, high + (Math.abs(high) || 1) * 0.1] : [low, high + (high - low) * 0.05]}},
      axes: [{...axis, size: 28, gap: 3, space: 76, values: (u, ticks) => ticks.map(t => number(t) + " " + unit)}, {...axis, size: named ? 92 : 58,
        splits: named ? () => plot.names.map((_, i) => i) : undefined, values: (u, ticks) => ticks.map(name)}],
      hooks: {setScale: [(u, scale) => {
        // Plots with samples at other times zoom to the same time.
        if (scale !== "x" || root.zooming) return;
        root.zooming = true;
        const {min, max} = u.scales.x;
        (root.plots || []).forEach(other => {
          if (other !== u && (other.scales.x.min !== min || other.scales.x.max !== max)) other.setScale("x", {min, max});
        });
        root.zooming = false;
      }]},
    }, data, frame);
    // Whoever shares the cursor was zoomed, too.
    u.over.addEventListener("dblclick", () => roots.filter(other => other.key === key).forEach(other =>
      other.plots.forEach(plot => plot.setScale("x", {min: 0, max: other.group.end * timeUnit(other.group.end)[1]}))));
    u.setScale("x", {min: 0, max: group.end * factor});
    buttons.addEventListener("click", event => {
      const kind = event.target.dataset.save;
      if (kind === "table") return toggleTable(event.target, frame, () => table(plot, data, unit));
      const file = `${id}-${heading.textContent}`.toLowerCase().replace(/[^a-z0-9]+/g, "-");
      if (kind) saveAs(kind, file, () => traced(plot, u, unit, `${id}: ${heading.textContent}`), () => table(plot, data, unit));
    });
    return u;
  });
}

function table(plot, data, unit) {
  const quoted = text => /[",\n]/.test(text) ? `"${text.replace(/"/g, '""')}"` : text;
  const suffix = plot.unit ? ` (${plot.unit})` : "";
  let out = ["t_" + unit, ...plot.lines.map(line => quoted(line.label + suffix))].join(",") + "\n";
  data[0].forEach((t, i) => { out += data.map(column => column[i] == null ? "" : column[i]).join(",") + "\n"; });
  return out;
}

// What is visible of a plot, as SVG.
function traced(plot, u, unit, title) {
  const left = plot.names.length ? 90 : 54, right = 1012, top = 10, bottom = 190, {x, y} = u.scales;
  const px = v => left + (v - x.min) / (x.max - x.min) * (right - left);
  const py = v => bottom - (v - y.min) / (y.max - y.min) * (bottom - top);
  let body = "";
  const ticks = (low, high, n) => {
    const rough = (high - low) / n, power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map(m => m * power).find(s => s >= rough), out = [];
    for (let i = Math.ceil(low / step); i * step <= high + step * 1e-9; i++) out.push(i * step);
    return out;
  };
  for (const v of plot.names.length ? plot.names.keys() : ticks(y.min, y.max, 4))
    body += `<path class="g" d="M${left} ${py(v).toFixed(1)}H${right}"/><text x="${left - 6}" y="${(py(v) + 4).toFixed(1)}" text-anchor="end">${xml(plot.names[v] ?? number(v))}</text>`;
  for (const v of ticks(x.min, x.max, 8))
    body += `<text x="${px(v).toFixed(1)}" y="${bottom + 16}" text-anchor="middle">${number(v)}</text>`;
  body += `<text class="m" x="2" y="${bottom + 16}">${unit}</text>`;
  let legend = left, row = bottom + 36;
  plot.lines.forEach((line, i) => {
    let path = "";
    u.data[0].forEach((t, j) => {
      const v = u.data[i + 1][j];
      if (v != null && t >= x.min && t <= x.max) path += `${path ? "L" : "M"}${px(t).toFixed(1)} ${py(v).toFixed(1)}`;
    });
    const look = `class="k${line.k}" fill="none" stroke="currentColor" stroke-dasharray="${line.dash}"`;
    body += `<path ${look} d="${path}" stroke-width="1.2"/>`;
    const room = line.label.length * 6.4 + 44;
    if (legend + room > right && legend > left) { legend = left; row += 16; }
    body += `<path ${look} d="M${legend} ${row - 4}h22" stroke-width="2"/><text x="${legend + 27}" y="${row}">${xml(line.label)}</text>`;
    legend += room;
  });
  return svgFile(title, [[[1020, row + 8, body]]]);
}

function viewer(root, nth) {
  const {groups} = JSON.parse(root.querySelector("script").textContent);
  const [caseSelect, ...axisSelects] = root.querySelectorAll(".choose select");
  const said = root.querySelector(".said");
  const wanted = select => select.hidden ? null : select.value;
  const show = () => {
    const fits = group => (wanted(caseSelect) ?? group.case) === group.case &&
      axisSelects.every((select, i) => (wanted(select) ?? group.at[i]) === group.at[i]);
    const group = groups.find(fits);
    root.group = group;
    if (!group) {
      (root.plots || []).forEach(plot => plot.destroy());
      root.plots = [];
      root.querySelector(".plots").textContent = "";
      said.textContent = "This combination was not run, or nothing of it was sampled.";
      return;
    }
    // One cursor reads all plots of an experiment that have one unit of time.
    root.key = `knee-${root.closest("section")?.id ?? nth}-${timeUnit(group.end)[0]}`;
    draw(root, group, root.key, root.dataset.id);
    said.textContent = (group.run == null ? "The first run of each case. " : `Run ${group.run}. `) + group.left_out +
      (group.plots.every(plot => plot.exact) ? "Every sample is drawn." :
        "Where samples are denser than the drawing, the least and the largest of each short period are drawn: no spike is lost.");
  };
  [caseSelect, ...axisSelects].forEach(select => select.addEventListener("change", show));
  root.show = show;
  show();
  let width = root.clientWidth;
  new ResizeObserver(() => {
    if (root.clientWidth === width) return;
    width = root.clientWidth;
    (root.plots || []).forEach(plot => plot.setSize({width: Math.max(240, root.querySelector(".plots").clientWidth), height: 190}));
  }).observe(root);
}

// A screen without room for the contents beside the page folds them.
const contents = document.querySelector("nav.contents details");
if (contents) {
  const beside = matchMedia("(min-width:1200px)");
  const fold = () => { contents.open = beside.matches; };
  beside.addEventListener("change", fold);
  fold();
}

const roots = [...document.querySelectorAll(".series")];
// Drawn when about to be seen: a report of everything opens at once.
const seen = new IntersectionObserver(entries => entries.filter(entry => entry.isIntersecting).forEach(entry => {
  seen.unobserve(entry.target);
  viewer(entry.target, roots.indexOf(entry.target));
}), {rootMargin: "600px"});
roots.forEach(root => seen.observe(root));
const redraw = () => roots.forEach(root => root.show && root.show());
matchMedia("(prefers-color-scheme:dark)").addEventListener("change", redraw);
// On paper nothing can be opened.
let folded = [];
addEventListener("beforeprint", () => {
  roots.forEach((root, i) => root.show || viewer(root, i));
  folded = [...document.querySelectorAll(".more:not([open])")];
  folded.forEach(details => details.open = true);
});
addEventListener("afterprint", () => folded.forEach(details => details.open = false));
// For plots of captures.
window.knee = {style, bytes, saveAs, svgFile, number, timeUnit, xml};
})();
