"use strict";
(() => {
const SVG = "http://www.w3.org/2000/svg";

function element(name, attributes = {}, words) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (words !== undefined) made.textContent = words;
  return made;
}

// -- tables ---------------------------------------------------------------------------------------

function value(row, column) {
  const cell = row.cells[column];
  return cell.dataset.v === undefined ? cell.textContent : Number(cell.dataset.v);
}

function sort(table, column) {
  const head = table.tHead.rows[0].cells[column];
  const body = table.tBodies[0];
  const rows = [...body.rows];
  const figures = rows.length > 0 && typeof value(rows[0], column) === "number";
  const before = head.getAttribute("aria-sort");
  const up = before ? before === "descending" : !figures;
  const order = new Intl.Collator(undefined, { numeric: true });
  const compare = (a, b) => {
    const x = value(a, column), y = value(b, column);
    return typeof x === "number" && typeof y === "number" ? x - y : order.compare(x, y);
  };
  rows.sort((a, b) => (up ? compare(a, b) : compare(b, a)));
  for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", up ? "ascending" : "descending");
  body.append(...rows);
}

for (const table of document.querySelectorAll("table.sortable")) {
  [...table.tHead.rows[0].cells].forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    button.addEventListener("click", () => sort(table, column));
    head.append(button);
  });
}

// -- waterfalls -----------------------------------------------------------------------------------

// Places in a frame's array.
const NUMBER = 0, COMMAND = 1, TENSOR = 2, ROLE = 3, PHASE = 4, WORKER = 5, UP = 6, UP0 = 7, UP1 = 8,
  DOWN = 9, DOWN0 = 10, DOWN1 = 11, MISSING = 12;
const LANE = 22, ROW = 20, AXIS = 22;

const milliseconds = (us, digits = 3) => `${(us / 1000).toFixed(digits)} ms`;
// Copies for a device are called DEVICE#name#number.
const short = (tensor) => tensor.replace(/^[^#]*\[[^#]*\]#/, "").replace(/#\d+(?= |$)/, "");
const counted = (n) => n.toLocaleString("en");

class Waterfall {
  constructor(root) {
    this.root = root;
    const data = JSON.parse(document.getElementById(`${root.id}-data`).textContent);
    this.strings = data.strings;
    this.samples = data.samples;
    this.chart = root.querySelector(".wf-chart");
    this.head = root.querySelector(".wf-head");
    this.body = root.querySelector(".wf-body");
    this.detail = root.querySelector(".detail");
    this.said = root.querySelector(".said");
    this.select = root.querySelector("select");
    this.pointers = new Map();
    for (const hidden of root.querySelectorAll("[hidden]")) hidden.hidden = false;
    this.select.value = "0";
    this.select.addEventListener("change", () => this.choose(Number(this.select.value)));
    for (const button of root.querySelectorAll("[data-do]")) {
      button.addEventListener("click", () => this.act(button.dataset.do));
    }
    this.chart.addEventListener("keydown", (event) => this.key(event));
    this.chart.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    this.chart.addEventListener("pointerdown", (event) => this.grasp(event));
    this.chart.addEventListener("pointermove", (event) => this.drag(event));
    for (const end of ["pointerup", "pointercancel"]) {
      this.chart.addEventListener(end, (event) => this.pointers.delete(event.pointerId));
    }
    new ResizeObserver(() => this.draw()).observe(this.chart);
    addEventListener("beforeprint", () => this.draw());
    this.choose(0, true);
  }

  choose(index, first = false) {
    this.sample = this.samples[index];
    this.from = 0;
    this.to = this.sample.length;
    this.row = -1;
    this.said.textContent = this.sample.said;
    this.detail.textContent = "";
    if (!first) this.fill();
    this.body.scrollTop = 0;
    this.draw();
  }

  // -- where things are

  get left() { return Math.min(300, Math.round(this.width * 0.36)); }

  x(us) {
    const room = this.width - this.left - 8;
    return this.left + (us - this.from) / (this.to - this.from) * room;
  }

  time(clientX) {
    const room = this.width - this.left - 8;
    const at = clientX - this.chart.getBoundingClientRect().left - this.left;
    return this.from + Math.min(1, Math.max(0, at / room)) * (this.to - this.from);
  }

  // -- what the reader does

  zoom(factor, centre = (this.from + this.to) / 2) {
    const least = Math.max(0.5, this.sample.length / 1e5);
    const span = Math.min(this.sample.length, Math.max(least, (this.to - this.from) * factor));
    const part = (centre - this.from) / (this.to - this.from);
    this.show(centre - part * span, span);
  }

  move(part) {
    const span = this.to - this.from;
    this.show(this.from + part * span, span);
  }

  show(from, span) {
    this.from = Math.min(Math.max(0, from), this.sample.length - span);
    this.to = this.from + span;
    this.draw();
  }

  act(what) {
    if (what === "in") this.zoom(0.5);
    else if (what === "out") this.zoom(2);
    else if (what === "earlier") this.move(-0.25);
    else if (what === "later") this.move(0.25);
    else this.show(0, this.sample.length);
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const last = this.sample.frames.length - 1;
    const keys = {
      "+": () => this.act("in"), "=": () => this.act("in"), "-": () => this.act("out"),
      "0": () => this.act("whole"), ArrowLeft: () => this.act("earlier"),
      ArrowRight: () => this.act("later"), ArrowDown: () => this.pick(Math.min(last, this.row + 1)),
      ArrowUp: () => this.pick(Math.max(0, this.row - 1)), Home: () => this.pick(0),
      End: () => this.pick(last),
    };
    const run = keys[event.key];
    if (!run) return;
    event.preventDefault();
    run();
  }

  wheel(event) {
    const focused = this.chart.contains(document.activeElement);
    if (!event.ctrlKey && !event.metaKey && !focused) return;
    event.preventDefault();
    if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) this.move(event.deltaX / 600);
    else this.zoom(Math.exp(event.deltaY / 400), this.time(event.clientX));
  }

  grasp(event) {
    this.pointers.set(event.pointerId, event.clientX);
    const row = event.target.closest(".wf-row");
    if (row) this.pick(Number(row.dataset.row), false);
  }

  drag(event) {
    const before = this.pointers.get(event.pointerId);
    if (before === undefined) return;
    if (event.pointerType === "mouse" && event.buttons === 0) {
      this.pointers.delete(event.pointerId);
      return;
    }
    const others = [...this.pointers].filter(([id]) => id !== event.pointerId);
    this.pointers.set(event.pointerId, event.clientX);
    if (others.length) {
      const other = others[0][1];
      const wide = Math.abs(event.clientX - other);
      if (wide > 10) this.zoom(Math.abs(before - other) / wide, this.time((event.clientX + other) / 2));
    } else {
      const room = Math.max(1, this.width - this.left - 8);
      this.move((before - event.clientX) / room);
    }
  }

  pick(row, scroll = true) {
    if (row < 0 || row >= this.sample.frames.length) return;
    this.row = row;
    this.detail.textContent = this.words(this.sample.frames[row]);
    this.draw();
    if (!scroll) return;
    const top = row * ROW, view = this.body;
    if (top < view.scrollTop) view.scrollTop = top;
    else if (top + ROW > view.scrollTop + view.clientHeight) view.scrollTop = top + ROW - view.clientHeight;
  }

  words(f) {
    const s = this.strings;
    let words = `Packet ${counted(f[NUMBER])}, ${s[f[COMMAND]]}`;
    if (s[f[TENSOR]]) words += ` ${s[f[TENSOR]]}`;
    words += `, ${s[f[ROLE]]} (${s[f[PHASE]]}), ${s[f[WORKER]]}.`;
    if (f[UP0] >= 0) {
      words += ` Up ${counted(f[UP])} B from ${milliseconds(f[UP0])} to ${milliseconds(f[UP1])}.`;
    }
    if (f[DOWN0] >= 0) {
      const waited = f[UP1] >= 0 ? `after ${milliseconds(Math.max(0, f[DOWN0] - f[UP1]))}, ` : "";
      words += ` Down ${waited}${counted(f[DOWN])} B until ${milliseconds(f[DOWN1])}.`;
    }
    if (f[MISSING]) words += ` ${counted(f[MISSING])} B were not captured.`;
    return words;
  }

  // -- drawing

  draw() {
    this.width = this.chart.clientWidth;
    if (!this.width) return;
    this.head.replaceChildren(this.lanes());
    this.body.replaceChildren(this.rows());
    this.chart.dataset.from = this.from;
    this.chart.dataset.to = this.to;
  }

  picture(title, height) {
    const svg = element("svg", {
      width: this.width, height, viewBox: `0 0 ${this.width} ${height}`, role: "img", "font-size": 12,
    });
    svg.append(element("title", {}, title));
    return svg;
  }

  label(parent, words, y, most) {
    const letters = Math.max(4, Math.floor(most / 7.2));
    const shown = words.length > letters ? words.slice(0, letters - 1) + "…" : words;
    const text = element("text", { x: 6, y, class: "f-ink" }, shown);
    parent.append(text);
  }

  bar(parent, from, to, y, height, kind) {
    if (to < this.from || from > this.to || from < 0) return;
    const a = Math.max(this.left, this.x(from)), b = Math.min(this.width - 8, this.x(to));
    parent.append(element("rect", { x: a.toFixed(1), y, width: Math.max(1.5, b - a).toFixed(1), height, class: `f-${kind}` }));
  }

  ticks() {
    const span = this.to - this.from;
    const most = Math.max(2, (this.width - this.left) / 90);
    let step = 10 ** Math.floor(Math.log10(span / most));
    for (const factor of [1, 2, 5, 10]) {
      if (span / (step * factor) <= most) { step *= factor; break; }
    }
    const found = [];
    for (let at = Math.ceil(this.from / step) * step; at <= this.to; at += step) found.push(at);
    return [found, Math.max(0, Math.min(6, 3 - Math.floor(Math.log10(step))))];
  }

  lanes() {
    const height = AXIS + this.sample.lanes.length * LANE;
    const svg = this.picture(this.sample.said, height);
    const [marks, digits] = this.ticks();
    for (const at of marks) {
      const x = this.x(at);
      svg.append(element("line", { x1: x, x2: x, y1: AXIS - 4, y2: height, class: "s-grid" }));
      const anchor = x > this.width - 50 ? "end" : "middle";
      svg.append(element("text", { x, y: 13, "text-anchor": anchor, class: "f-muted" }, milliseconds(at, digits)));
    }
    this.sample.lanes.forEach(([name, kind, spans], i) => {
      const y = AXIS + i * LANE;
      this.label(svg, name, y + 15, this.left - 10);
      for (let j = 0; j < spans.length; j += 2) this.bar(svg, spans[j], spans[j + 1], y + 3, LANE - 6, kind);
    });
    return svg;
  }

  rows() {
    const frames = this.sample.frames, s = this.strings;
    const svg = this.picture("Frames, a row each: up, waiting, down", Math.max(1, frames.length * ROW));
    for (const at of this.ticks()[0]) {
      const x = this.x(at);
      svg.append(element("line", { x1: x, x2: x, y1: 0, y2: frames.length * ROW, class: "s-grid" }));
    }
    frames.forEach((f, i) => {
      const y = i * ROW;
      const row = element("g", { class: i === this.row ? "wf-row chosen" : "wf-row", "data-row": i });
      row.append(element("title", {}, this.words(f)));
      row.append(element("rect", { x: 0, y, width: this.width, height: ROW, class: "wf-hit" }));
      const tensor = short(s[f[TENSOR]]);
      const name = tensor && this.width < 500 ? tensor : `${s[f[COMMAND]]} ${tensor}`;
      this.label(row, name, y + 14, this.left - 10);
      if (f[DOWN0] >= 0 && f[UP1] >= 0) this.bar(row, f[UP1], f[DOWN0], y + 8, 3, "worker");
      if (f[UP0] >= 0) this.bar(row, f[UP0], f[UP1], y + 4, ROW - 8, "up");
      if (f[DOWN0] >= 0) this.bar(row, f[DOWN0], f[DOWN1], y + 4, ROW - 8, "down");
      svg.append(row);
    });
    return svg;
  }

  // -- the same as a table

  fill() {
    const body = document.getElementById(`${this.root.id}-rows`);
    const s = this.strings;
    const rows = this.sample.frames.map((f) => {
      const begun = f[UP0] >= 0 ? f[UP0] : f[DOWN0];
      const waited = f[DOWN0] >= 0 && f[UP1] >= 0 ? Math.max(0, f[DOWN0] - f[UP1]) : null;
      const row = document.createElement("tr");
      const cells = [
        [counted(f[NUMBER]), f[NUMBER]], [s[f[COMMAND]]], [s[f[TENSOR]]], [s[f[ROLE]]], [s[f[PHASE]]],
        [s[f[WORKER]]], [counted(f[UP]), f[UP]], [counted(f[DOWN]), f[DOWN]],
        [milliseconds(begun), begun], [waited === null ? "-" : milliseconds(waited), waited || 0],
      ];
      for (const [words, sorted] of cells) {
        const cell = document.createElement("td");
        cell.textContent = words;
        if (sorted !== undefined) {
          cell.dataset.v = sorted;
          cell.className = "num";
        }
        row.append(cell);
      }
      return row;
    });
    body.replaceChildren(...rows);
    for (const head of body.closest("table").tHead.rows[0].cells) head.removeAttribute("aria-sort");
  }
}

for (const root of document.querySelectorAll(".waterfall")) new Waterfall(root);
})();
