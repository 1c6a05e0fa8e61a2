// The board: one card per query, drawn with plain DOM and SVG.
//
// Answers come from /api/answers once and from /api/events ever after. What is shown is the
// newest of them or, after a step back, those of one time.

const $ = (id) => document.getElementById(id);
const SVG = document.querySelector("svg").namespaceURI;
const BUMPS = 30; // windows in the chart of ranks
const LISTED = 1000; // ms for which a list of all ends is good enough
const SPARKS = 60; // windows in the small chart of totals
const PAUSE = 220; // ms between two pictures, at least
const HASTE = 500; // where answers come faster than one can read
const TURN = 100; // and then for each card in sight
const REST = 5; // and so many times what the last picture took
const SLOW = 1000; // ms between two charts of a card whose answers come fast
const AWAY = 2000; // and between two pictures of such a card out of sight
const FAST = 5; // answers a second that count as fast
const HIDDEN = new Set(["window_start", "window_end", "revision", "rank", "count", "error", "topk_probability", "decayed"]);
const ROW = 32; // height of a row, as in the style sheet
const COLOURS = 20; // as many as the style sheet has
const LEAST = 400; // width of a card beside others
const BROAD = 740; // and with its chart beside its ranking
const GAP = 18; // between cards, as in the style sheet
const calm = matchMedia("(prefers-reduced-motion: reduce)");
const place = new URLSearchParams(location.hash.slice(1));

const view = {
  board: null, cards: [], zone: place.get("zone") || "", theme: place.get("theme") || "auto",
  end: place.get("end"), // the moment that is shown; null is now
  pinned: place.get("row"), lit: null, connected: false, heard: Date.now(), whole: false, status: null,
  dated: "", step: 1, // whether times need dates, and seconds between windows at most
};

// Small helpers ---

function make(tag, properties = {}, ...children) {
  const found = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name in found) found[name] = value; else found.setAttribute(name, value);
  }
  found.append(...children);
  return found;
}

function draw(tag, attributes = {}, ...children) {
  const found = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) found.setAttribute(name, value);
  found.append(...children);
  return found;
}

const whole = new Intl.NumberFormat(undefined, { maximumFractionDigits: 0 });
const exactly = new Intl.NumberFormat(undefined, { maximumSignificantDigits: 15 });
const short = new Intl.NumberFormat(undefined, { notation: "compact", maximumSignificantDigits: 4 });
const plainly = new Intl.NumberFormat(undefined, { maximumSignificantDigits: 6 });
const shares = new Intl.NumberFormat(undefined, { style: "percent", maximumSignificantDigits: 2 });

function number(value, full = false, unit = "") {
  if (value === null || value === undefined) return "–";
  if (typeof value === "string" && /^-?\d{16,}$/.test(value)) value = full ? BigInt(value) : Number(value);
  if (typeof value === "bigint") return `${value.toLocaleString()} ${unit}`.trim();
  if (typeof value !== "number") return String(value);
  if (unit === "bytes" && !full) return bytes(value);
  return `${full ? exactly.format(value) : Math.abs(value) >= 1e6 ? short.format(value) : plainly.format(value)} ${unit}`.trim();
}

function bytes(count) {
  const units = ["B", "kB", "MB", "GB", "TB", "PB"];
  let at = 0;
  for (; Math.abs(count) >= 999.5 && at < units.length - 1; at++) count /= 1000;
  return `${plainly.format(Number(count.toPrecision(3)))} ${units[at]}`;
}

const percent = (share) => (share < 1e-4 ? `< ${shares.format(1e-4)}` : shares.format(share));

let clocks = {};
function format(zone, options) {
  return (clocks[zone + JSON.stringify(options)] ??= new Intl.DateTimeFormat(undefined, { timeZone: zone, ...options }));
}

function moment(value) {
  const naive = !/(Z|[+-]\d\d:\d\d)$/.test(value);
  return { at: new Date(naive ? `${value}Z` : value), zone: naive ? "UTC" : view.zone || undefined };
}

const dayOf = ({ at, zone }) => format(zone, { dateStyle: "short" }).format(at);
const ofDays = ({ at, zone }) => /^0?0:00:00$/.test(format(zone, { timeStyle: "medium", hourCycle: "h23" }).format(at));

// A time, or the window that ends there; the step between windows says whether they need seconds.
function clock(value, step = 0, from = null) {
  if (typeof value === "number") return (from === null ? "" : `${whole.format(from)} – `) + whole.format(value);
  if (value === null || value === undefined) return "–";
  const { at, zone } = moment(value), begin = from === null ? null : moment(from);
  if (Number.isNaN(at.getTime())) return String(value);
  const date = view.dated ? { month: "short", day: "numeric", ...(view.dated === "year" ? { year: "numeric" } : {}) } : {};
  if (step && step % 86400 === 0 && begin && ofDays(begin) && ofDays(moment(value))) return format(zone, { year: "numeric", month: "short", day: "numeric" }).formatRange(begin.at, at - 1);
  const parts = (step ? step % 1 : at.getMilliseconds()) ? 3 : undefined;
  const options = { ...date, hour: "numeric", minute: "2-digit", ...(step && step % 60 === 0 ? {} : { second: "2-digit", fractionalSecondDigits: parts }) };
  return begin ? format(zone, options).formatRange(begin.at, at) : format(zone, options).format(at);
}

function dates() {
  // Dates where not all is of today, and years where not all is of this one.
  const ends = view.cards.flatMap(({ answers }) => (answers.length ? [answers[0].start ?? answers[0].end, answers.at(-1).end] : []));
  const moments = ends.filter((end) => typeof end === "string").map(moment), today = { at: new Date(), zone: view.zone || undefined };
  const now = moments.some((each) => each.at.getFullYear() !== today.at.getFullYear()) ? "year" : moments.some((each) => dayOf(each) !== dayOf(today)) ? "day" : "";
  if (now === view.dated) return;
  view.dated = now;
  for (const card of view.cards) card.shown = null;
  tellStatus();
}

const order = (end) => (typeof end === "number" ? end : /^-?\d+$/.test(end) ? Number(end) : moment(end).at.getTime());

const colours = new Map();
const colour = (id) => `var(--c${colours.get(id) ?? 0})`;

function paint() {
  // An id has one colour in all cards; rows of a card have different ones while there are some left.
  const where = new Map(), used = view.cards.map(() => new Array(COLOURS).fill(0));
  view.cards.forEach((card, at) => { for (const { id } of card.rows()) where.set(id, (where.get(id) || new Set()).add(at)); });
  const give = (id, chosen) => { colours.set(id, chosen); for (const at of where.get(id)) used[at][chosen]++; };
  const taken = (id, chosen) => [...where.get(id)].reduce((sum, at) => sum + used[at][chosen], 0);
  const fresh = [...where.keys()].sort((a, b) => where.get(b).size - where.get(a).size)
    .filter((id) => !colours.has(id) || taken(id, colours.get(id)) || give(id, colours.get(id)));
  const other = fresh.some((id) => colours.has(id));
  for (const id of fresh) {
    const counts = used[0].map((_, chosen) => taken(id, chosen));
    give(id, counts.indexOf(Math.min(...counts)));
  }
  if (colours.size > 5000) for (const id of colours.keys()) if (!where.has(id)) colours.delete(id);
  if (other) for (const card of view.cards) card.tint();
}

function remember() {
  const told = new URLSearchParams();
  if (view.zone) told.set("zone", view.zone);
  if (view.theme !== "auto") told.set("theme", view.theme);
  if (view.end !== null) told.set("end", view.end);
  if (view.pinned) told.set("row", view.pinned);
  for (const card of view.cards) if (card.group) told.set(`group.${card.query.name}`, JSON.stringify(card.group));
  const text = told.toString();
  history.replaceState(null, "", text ? `#${text}` : location.pathname);
}

// Names that are too long ---

const pen = document.createElement("canvas").getContext("2d");
const FONTS = { row: `15px ${getComputedStyle(document.body).fontFamily}` };
FONTS.chart = FONTS.row.replace("15", "11");

function cut(name, room, font, [ends, at]) {
  // What does not fit is left out where names are alike.
  pen.font = font;
  const wide = (text) => pen.measureText(text).width;
  if (wide(name) <= room) return name;
  const letters = [...name], part = (from, to) => letters.slice(from, to).join("");
  for (let most = Math.min(letters.length - 1, Math.ceil((letters.length * room) / wide(name))); ; most--) {
    const head = ends === "both" || letters.length - at > most ? most >> 1 : 0;
    const text = ends === "start" ? `${part(0, most)}…` : `${head && at ? "…" : ""}${part(at, at + head)}…${part(head - most)}`;
    if (most <= 1 || wide(text) <= room) return text;
  }
}

function telling(names) {
  const same = (at) => { let n = 0; while (n < 200 && n < names[0].length && names.every((name) => name.at(at(n)) === names[0].at(at(n)))) n++; return n; };
  if (names.length < 2) return ["both", 0];
  const [head, tail] = [same((n) => n), same((n) => -1 - n)];
  return head > tail ? ["end", head] : [tail > head ? "start" : "both", 0];
}

function promise(answer, rows, { value, units }) {
  // How far from the truth the numbers may be; a millionth of them is nothing to a reader.
  const { mu, cut, ...bounds } = answer.bounds, unit = units[value];
  if (answer.exact || answer.exact === null) return ["exact", answer.exact ? `exact${cut ? `, ${cut} more tie` : ""}` : ""];
  const sizes = rows.map(({ row }) => Math.abs(Number(row[value]))), errors = rows.map(({ row }) => Number(row.error || 0));
  const others = Number(mu || 0) > Math.min(...sizes) * (1 + 1e-6);
  const said = Object.entries(bounds).map(([name, bound]) => `within ${name.replaceAll("_", " ")} ${number(bound)}`);
  if (rows.length && !said.length && !others && rows[0].row.error !== undefined && errors.every((error, i) => error <= sizes[i] * 1e-6)) return ["exact", "exact to 6 digits"];
  if (Math.max(...errors) > 0) said.unshift(`within ${number(Math.max(...errors), false, unit)}`);
  if (others) said.push(`an item not shown may have ${number(mu, false, unit)}`);
  return ["about", said.join(", ") || "approximate"];
}

// A card ---

class Card {
  answers = []; // oldest first
  known = new Set();
  lines = []; // of the table; they stay and change what they say
  places = new Map(); // where a key stands in them
  ends = []; // the names at the ends of the lines in the chart
  paths = new Map(); // the lines themselves, by key
  points = new Map();
  arrivals = []; // when the last answers came, to see how fast they come
  drawnAt = -Infinity;
  chartedAt = -Infinity;
  seen = true; // whether the card is in sight
  group = null;
  width = 0; // of the drawing
  height = 0;

  constructor(query) {
    this.query = query;
    this.counted = query.window.kind === "count";
    const given = place.get(`group.${query.name}`);
    if (given) try { this.group = JSON.parse(given); } catch { this.group = null; }
    this.build();
  }

  build() {
    const { query } = this;
    const element = this.element = $("card").content.firstElementChild.cloneNode(true), find = (part) => element.querySelector(part);
    for (const part of ["total", "rate", "spark", "facts", "caption", "list", "ghosts", "body", "full", "drawing", "chart", "empty", "time", "other"]) this[part] = find(`.${part}`);
    find("h2").id = `q-${view.cards.length}`;
    element.setAttribute("aria-labelledby", find("h2").id);
    for (const [part, text] of [["h2", query.title], [".asks", query.asks], [".weighed", `${query.total_of} in the window${query.by.length && !this.counted ? `, every ${query.by.join(", ")}` : ""}`], ["caption", query.title]]) find(part).append(text);
    if (query.by.length) find("header").append(this.picker());
    if (query.positions) find("header").append(this.finder());
    this.heads = query.ranked ? ["Rank", "Change", query.key.join(", ") || "Row", query.heading] : query.columns.slice(2);
    find("thead tr").append(...this.heads.map((name) => make("th", { scope: "col", role: "columnheader" }, name)));
    const shown = new Set([...query.key, ...query.by, query.value, "window_start", "window_end", "revision", "rank", "error", query.spec.time, "count"]);
    this.beside = query.columns.filter((name) => !shown.has(name));
    this.drawing.hidden = query.ranked;
    this.chart.classList.add(query.ranked ? "bump" : "scatter");
    if (query.ranked) this.chart.ariaHidden = "true";
    else {
      this.list.className = "hidden";
      put(this.chart, "role", "group");
      put(this.chart, "aria-label", `Chart of ${query.title}`);
    }
    find(".copy").onclick = (event) => copy(this.csv(), event.target);
    find(".download").onclick = () => this.download();
    element.style.containIntrinsicBlockSize = `auto ${180 + (query.ranked ? 46 * (query.spec.k || 5) : 300)}px`;
    this.body.addEventListener("keydown", (event) => this.arrows(event));
    for (const [on, off] of [["mouseover", "mouseout"], ["focusin", "focusout"]]) {
      this.element.addEventListener(on, (event) => {
        const found = event.target.closest("[data-id]");
        if (found) light(found.dataset.id);
        this.explain(this.lines.find((line) => line.tr === found));
      });
      this.element.addEventListener(off, () => { light(view.pinned); this.full.hidden = true; });
    }
    this.element.addEventListener("click", (event) => {
      const found = event.target.closest("[data-id]");
      if (found) pin(found.dataset.id);
    });
    const sizes = new ResizeObserver((entries) => {
      for (const { target, contentRect } of entries) {
        const width = Math.round(contentRect.width), height = Math.round(contentRect.height);
        if (target === this.list ? width === this.across : width < 60 || (width === this.width && height === this.height)) continue;
        if (width !== (target === this.list ? this.across : this.width) || !query.ranked) this.shown = null;
        this.charted = undefined;
        if (target === this.list) [this.across, this.room] = [width, null];
        else [this.width, this.height] = [width, height];
        refresh();
      }
    });
    for (const each of [this.drawing, this.list]) sizes.observe(each);
    new IntersectionObserver((entries) => {
      this.seen = entries.at(-1).isIntersecting;
      if (this.seen) refresh();
    }, { rootMargin: "150px" }).observe(this.element);
  }

  picker() {
    const { query } = this, of = query.by.join(", "), list = make("datalist", { id: `g-${view.cards.length}` });
    this.choices = list;
    const input = this.input = make("input", { type: "search", autocomplete: "off", spellcheck: false });
    input.setAttribute("list", list.id);
    input.ariaLabel = `${of} shown in ${query.title}`;
    const choose = (name) => {
      const found = this.groups().find((each) => each.name === name);
      write(this.unknown, found || !name ? "" : `no ${of} “${name}” in this window`);
      if (!found) return;
      this.group = found.group;
      this.shown = null;
      remember();
      refresh();
    };
    const current = () => (this.group ? label(this.group) : "");
    this.unknown = make("output");
    input.oninput = () => { if (this.groups().some(({ name }) => name === input.value)) choose(input.value); };
    input.onchange = () => choose(input.value);
    input.onfocus = () => input.select();
    input.onblur = () => { input.value = current(); };
    const step = (by) => () => {
      const names = this.groups().map(({ name }) => name);
      if (names.length) choose(names[(names.indexOf(current()) + by + names.length) % names.length]);
      input.value = current();
    };
    const button = (text, said, by) => {
      const found = make("button", { type: "button", ariaLabel: `${said} ${of}` }, text);
      found.onclick = step(by);
      return found;
    };
    return make("div", { className: "pick" }, make("span", {}, of), button("‹", "Previous", -1),
      input, button("›", "Next", 1), this.unknown, list);
  }

  finder() {
    const names = this.query.key.join(" · ");
    this.wanted = make("input", { type: "search", autocomplete: "off", spellcheck: false, placeholder: names, ariaLabel: `${names} to find in ${this.query.title}` });
    this.wanted.onchange = this.wanted.onsearch = () => this.locate();
    this.stands = make("output");
    return make("div", { className: "find" }, make("span", {}, "Where is"), this.wanted, this.stands);
  }

  async locate() {
    // Where an id stands now, also one that the ranking does not show.
    const { query } = this, text = this.wanted.value.trim();
    this.askedAt = performance.now();
    if (!text) { write(this.stands, ""); return; }
    const listed = (values) => (values.length === 1 ? String(values[0]) : JSON.stringify(values));
    const parts = query.key.length === 1 ? [text] : text.split(" · ");
    if (parts.length !== query.key.length) { write(this.stands, `write it as ${query.key.join(" · ")}`); return; }
    const wanted = new URLSearchParams({ id: listed(parts) });
    if (this.group) wanted.set("group", listed(query.by.map((name) => this.group[name])));
    const reply = await fetch(`/api/position/${encodeURIComponent(query.name)}?${wanted}`).catch(() => null);
    const told = reply ? await reply.json() : { error: "the service cannot be reached" };
    if (this.wanted.value.trim() !== text) return;
    write(this.stands, reply?.ok ? `${number(told.rank)} of ${number(told.of)}, with ${this.text(query.value, told.value)}`
      : reply?.status === 404 ? "not in the window" : told.error);
  }

  // Answers ---

  add(answer) {
    const first = answer.rows[0] || answer.changes[0] || {};
    const alone = this.counted ? this.query.by.map((name) => first[name]) : [];
    const mark = JSON.stringify([answer.end, alone]);
    answer.order = order(answer.end);
    answer.only = alone.length ? JSON.stringify(alone) : null;
    if (this.known.has(mark)) {
      // A window that was corrected takes its place.
      const at = answer.revision ? this.answers.findIndex((each) => each.order === answer.order) : -1;
      if (at >= 0 && answer.revision > (this.answers[at].revision || 0)) this.answers[at] = answer;
      return;
    }
    this.known.add(mark);
    let at = this.answers.length;
    while (at && this.answers[at - 1].order > answer.order) at--;
    this.answers.splice(at, 0, answer);
    if (this.answers.length > view.board.history) {
      const [old] = this.answers.splice(0, 1);
      this.known.delete(JSON.stringify([old.end, old.only ? JSON.parse(old.only) : []]));
    }
  }

  fast(now) {
    // Whether answers come faster than one can read. Then charts and cards out of sight wait.
    return this.arrivals.length > FAST && now - this.arrivals[0] < 1000;
  }

  arrived() {
    this.arrivals.push(performance.now());
    if (this.arrivals.length > FAST + 1) this.arrivals.shift();
  }

  get kept() {
    const counts = this.group && this.counted ? {} : view.status?.windows || {};
    return Math.max(counts[this.query.name] || 0, this.visible().length);
  }

  clear() { this.answers = []; this.known.clear(); this.shown = this.last = null; }

  visible() {
    if (!this.group || !this.counted) return this.answers;
    const wanted = JSON.stringify(this.query.by.map((name) => this.group[name]));
    return this.answers.filter((answer) => answer.only === wanted);
  }

  upto() {
    const all = this.visible();
    if (view.end === null) return all;
    const limit = order(view.end);
    let at = all.length;
    while (at && all[at - 1].order > limit) at--;
    return all.slice(0, at);
  }

  groups() {
    // The largest first: by the rows that the answer shows, or by their newest total.
    const found = new Map(), alone = this.counted, { spec } = this.query;
    for (const answer of alone ? this.answers : this.upto().slice(-1)) for (const row of answer.rows) {
      const group = Object.fromEntries(this.query.by.map((name) => [name, row[name]])), key = JSON.stringify(group);
      found.set(key, { group, name: label(group), size: alone ? Number(answer.total) : (found.get(key)?.size || 0) + Number(spec.item ? row.count : 1) });
    }
    return [...found.values()].sort((a, b) => b.size - a.size || a.name.localeCompare(b.name));
  }

  mine(rows) {
    if (!this.group) return rows;
    return rows.filter((row) => this.query.by.every((name) => row[name] === this.group[name]));
  }

  shownRows(answer) {
    const group = this.group ? label(this.group) : "";
    if (!answer.kept || answer.kept.group !== group) answer.kept = { group, rows: this.keyed(this.mine(answer.rows)) };
    return answer.kept.rows;
  }

  rows() {
    // The rows that are shown next.
    const shown = this.upto(), answer = shown.at(-1);
    if (this.choices && (this.filled !== answer || !this.group)) this.fillPicker();
    this.filled = answer;
    return answer ? this.shownRows(answer) : [];
  }

  keyed(rows) {
    // A key per row: its id, or all that does not change; repeats are numbered.
    const seen = new Map();
    return rows.map((row) => {
      const parts = this.query.key.length ? this.query.key.map((name) => row[name])
        : Object.entries(row).filter(([name]) => !HIDDEN.has(name)).map(([, value]) => value);
      const id = parts.map((part) => (part === null ? "null" : String(part))).join(" · ");
      const repeat = (seen.get(id) || 0) + 1;
      seen.set(id, repeat);
      return { id, key: repeat > 1 ? `${id} (${repeat})` : id, row };
    });
  }

  // Drawing ---

  render(now) {
    const shown = this.upto();
    const answer = shown.at(-1);
    const group = this.group ? label(this.group) : "";
    const jump = this.shownGroup !== group || !this.shown;
    if (!jump && this.shown === answer && this.charted === answer) return;
    const fast = !jump && view.end === null && this.fast(now);
    if (fast && !this.seen && now < this.drawnAt + AWAY) { later(this.drawnAt + AWAY); return; }
    const anew = jump || this.shown !== answer;
    if (fast !== this.hasty) this.element.classList.toggle("fast", this.hasty = fast);
    this.shown = this.last = answer;
    this.shownGroup = group;
    const rows = answer ? this.shownRows(answer) : [];
    this.empty.hidden = rows.length > 0;
    if (!rows.length) write(this.empty, answer ? `No rows ${this.group ? `of ${group} ` : ""}in this window.` : view.end === null ? "No answer yet: the first window has not ended." : "No answer is kept for this time.");
    if (!answer) { this.wipe(); return; }
    if (anew) {
      this.drawnAt = now;
      this.header(answer, rows);
      if (this.query.ranked) this.ranking(rows, answer, jump);
      else this.scatter(rows, jump);
    }
    if (!fast || (now >= this.chartedAt + SLOW && charts-- > 0)) {
      this.chartedAt = now;
      this.charted = answer;
      this.sparkline(shown.slice(-SPARKS));
      if (this.query.ranked) this.bump(shown.slice(-BUMPS));
      else this.plainRows(rows);
      write(this.caption, `${this.query.title}, ${this.when(answer)}`);
    } else later(Math.max(now, this.chartedAt) + SLOW);
    this.relight();
  }

  wipe() {
    this.body.replaceChildren();
    this.other.hidden = true;
    this.lines = [];
    this.places.clear();
    this.noChart();
    if (this.frame) this.frame.points.replaceChildren();
    this.points.clear();
    for (const fact of this.facts.children) write(fact, "");
    this.charted = undefined;
  }

  fillPicker() {
    const groups = this.groups();
    this.group ??= groups[0]?.group;
    const unit = this.query.units.count || (this.query.total_of === "rows" || !this.query.spec.item ? "rows" : "");
    const texts = groups.slice(0, 500).map(({ name, size }) => `${name} · ${number(size, false, size === 1 && unit === "rows" ? "row" : unit)}${this.counted ? "" : " shown"}`);
    if (texts.join() !== this.listed) this.choices.replaceChildren(...texts.map((text, i) => make("option", { value: groups[i].name, label: text })));
    this.listed = texts.join();
    if (document.activeElement !== this.input) this.input.value = this.group ? label(this.group) : "";
  }

  header(answer, rows) {
    const unit = this.query.total_of === "rows" ? "" : this.query.units[this.query.value];
    write(this.total, number(answer.total, false, unit));
    write(this.rate, this.perTime(answer, unit));
    const [kind, words] = promise(answer, rows, this.query);
    const corrected = answer.revision > 1 ? `corrected ${answer.revision} times` : answer.revision ? "corrected" : "";
    const facts = [words, corrected, `${rows.length} ${rows.length === 1 ? "row" : "rows"}`, `Windows kept: ${whole.format(this.kept)}`];
    facts.forEach((text, i) => write(this.facts.children[i], text));
    if (this.facts.children[0].className !== kind) this.facts.children[0].className = kind;
    if (this.wanted?.value && view.end === null && performance.now() > this.askedAt + AWAY) this.locate();
    write(this.time, this.when(answer));
  }

  when({ start, end }) { return start === null ? `until ${clock(end, this.query.window.step)}` : clock(end, this.query.window.step, start); }

  perTime({ start, end, total }, unit) {
    const seconds = this.query.window.size && typeof end === "string" && start ? (order(end) - order(start)) / 1000 : 0;
    if (!seconds || total === null) return "";
    const [size, per] = seconds >= 7200 ? [3600, "hour"] : seconds >= 120 ? [60, "minute"] : [1, "second"];
    return `${number(Number(((total / seconds) * size).toPrecision(3)), false, unit)} per ${per}`;
  }

  sparkline(shown) {
    const answer = shown.at(-1);
    this.total.title = answer.total === null ? "not known on this engine"
      : `${number(answer.total, true)} ${this.query.total_of} in the window`;
    this.time.dateTime = String(answer.end);
    const totals = shown.filter((each) => each.total !== null).map((each) => Number(each.total));
    const most = Math.max(...totals, 1e-9);
    const at = (value, i) => `${((i / Math.max(1, totals.length - 1)) * 96).toFixed(1)},${(20 - (value / most) * 17).toFixed(1)}`;
    const line = totals.map(at).join("L");
    put(this.spark.firstElementChild, "d", totals.length > 1 ? `M0,22L${line}L96,22Z` : "");
    put(this.spark.lastElementChild, "d", totals.length > 1 ? `M${line}` : "");
  }

  ranking(rows, answer, jump) {
    // A line stays and takes new text; it glides from where that text was before.
    const { query, lines } = this;
    const value = (row) => Number(query.value ? row[query.value] : 0);
    const most = Math.max(...rows.map(({ row }) => Math.abs(value(row))).filter(Number.isFinite), 1e-12);
    const moves = new Map();
    for (const { key, row } of this.keyed(this.mine(answer.changes))) moves.set(key, row);
    const moving = !jump && this.seen && !calm.matches && !document.hidden;
    const held = lines.find((line) => line.tr === document.activeElement);
    this.apart = telling(rows.map(({ key }) => key));
    const heldKey = held && held.key;
    const before = this.places;
    this.places = new Map(rows.map(({ key }, place) => [key, place]));
    rows.forEach((each, place) => {
      const line = lines[place] || this.addLine();
      if (line.key !== each.key && line.motion) { line.motion.cancel(); line.motion = null; }
      this.fill(line, each, value(each.row) / most, most, moves.get(each.key));
      const from = before.get(each.key);
      if (!moving || from === place) return;
      line.motion = from === undefined ? line.tr.animate(ENTERS, this.hasty ? STEPS : ARRIVES)
        : line.tr.animate([{ transform: `translateY(${(from - place) * ROW}px)` }, { transform: "none" }], this.hasty ? STEPS : GLIDES);
    });
    while (lines.length > rows.length) lines.pop().tr.remove();
    this.full.hidden = true;
    const gone = [...before].filter(([key]) => !this.places.has(key));
    if (moving && gone.length <= before.size / 2) for (const [key, place] of gone) this.fade(key, place);
    if (held) {
      const now = lines[this.places.get(heldKey)] || (lines.includes(held) ? held : lines[0]);
      if (now && now !== held) this.rove(now.tr);
      if (now) light(now.id);
    } else if (lines.length && !lines.some((line) => line.tr.tabIndex === 0)) lines[0].tr.tabIndex = 0;
    const rest = query.value === "count" && !query.by.length && rows.length ? answer.total - rows.reduce((sum, { row }) => sum + value(row), 0) : 0;
    this.other.hidden = !(rest > most * 1e-6);
    write(this.other.lastChild, `other ${number(rest, false, query.units.count)}`);
    this.other.firstChild.style.transform = `scaleX(${Math.min(1, rest / most)})`;
    // The list keeps its height when there are fewer rows for a while.
    const tallest = Math.max(Math.min(this.tallest || 0, query.spec.k || 0), rows.length, 1);
    if (tallest !== this.tallest) this.list.style.minHeight = `${tallest * ROW}px`;
    this.tallest = tallest;
  }

  addLine() {
    const parts = { dot: make("span", { className: "dot" }), text: make("span"), beside: make("i"), chip: make("span", { className: "chip" }),
      bar: make("div", { className: "bar" }), whisker: make("div", { className: "whisker", hidden: true }), number: make("span", { className: "value" }) };
    const cell = (name, ...inside) => make("td", { className: name, role: "cell" }, ...inside);
    parts.rank = cell("r");
    const track = make("div", { className: "track", ariaHidden: "true" }, parts.bar, parts.whisker);
    parts.name = cell("n", parts.dot, parts.text, parts.beside);
    parts.tr = make("tr", { role: "row", tabIndex: -1 }, parts.rank, cell("c", parts.chip), parts.name, cell("v", track, parts.number));
    this.lines.push(parts);
    this.body.append(parts.tr);
    return parts;
  }

  fill(line, { id, key, row }, share, most, move) {
    const { query } = this;
    line.row = row;
    line.key = key;
    if (line.id !== id) {
      line.id = line.tr.dataset.id = id;
      line.dot.style.background = colour(id);
    }
    write(line.rank, String(row.rank));
    this.room ??= line.name.clientWidth - 30; // the space around, and the dot
    line.short = cut(key, this.room * (this.beside.length ? 0.6 : 1), FONTS.row, this.apart);
    write(line.text, line.short);
    line.name.ariaLabel = line.short === key ? null : key;
    if (this.beside.length) write(line.beside, this.besides(row));
    let said = "", kind = "";
    if (move && move.change === "enter") [said, kind] = ["new", "new"];
    else if (move && move.change === "move" && move.from_rank !== null) {
      const by = move.from_rank - row.rank;
      [said, kind] = by > 0 ? [`▲${by}`, "up"] : by < 0 ? [`▼${-by}`, "down"] : ["", ""];
    }
    if (line.said !== said) {
      line.said = said;
      write(line.chip, said);
      line.chip.className = `chip ${kind}`;
      line.chip.ariaLabel = { up: `up ${said.slice(1)}`, down: `down ${said.slice(1)}` }[kind] || said;
    }
    const error = Number(row.error || 0);
    write(line.number, query.value ? this.text(query.value, row[query.value]) : "");
    const length = `scaleX(${(Math.max(0, Math.min(1, Math.abs(share))) || 0).toFixed(3)})`;
    if (line.length !== length) line.bar.style.transform = line.length = length;
    if (query.spec.probability) {
      const chance = Number(row[query.spec.probability]);
      const shade = Number.isFinite(chance) ? 0.35 + 0.65 * chance : 1;
      if (line.shade !== shade) line.bar.style.opacity = line.shade = shade;
    }
    if (!(error > 0) && line.whisker.hidden) return;
    line.whisker.hidden = !(error > 0);
    line.whisker.style.left = `${Math.max(0, (Number(row.count) - error) / most) * 100}%`;
    line.whisker.style.right = `${Math.max(0, 1 - Number(row.count) / most) * 100}%`;
  }

  besides(row) {
    return this.beside.map((name) => `${name} ${this.text(name, row[name])}`).join("  ");
  }

  explain(line) {
    // The whole name and all digits of the row that is pointed at or has the focus.
    if (!line) return;
    const { query } = this, { row, name } = line, error = Number(row.error || 0);
    this.full.hidden = line.short === line.key && name.scrollWidth <= name.clientWidth;
    write(this.full, [line.key, this.besides(row)].filter(Boolean).join("\n"));
    this.full.style.top = `${(this.lines.indexOf(line) + 1) * ROW}px`;
    line.number.title = error > 0 ? `between ${number(Number(row.count) - error, true)} and ${number(row.count, true, query.units.count)}`
      : query.value ? number(row[query.value], true, query.units[query.value]) : "";
  }

  text(name, value) {
    return /^timestamp/.test(this.query.types[name] || "") ? clock(value) : number(value, false, this.query.units[name]);
  }

  fade(key, place) {
    // Names that fade are used again: taking one away would cost a picture.
    const { children } = this.ghosts, at = this.faded = ((this.faded ?? -1) + 1) % Math.max(10, this.query.spec.k || 0);
    const ghost = children[at] || this.ghosts.appendChild(make("div", { className: "ghost" }));
    write(ghost, key);
    ghost.style.translate = `0 ${place * ROW}px`;
    ghost.animate(LEAVES, this.hasty ? STEPS : ARRIVES);
  }

  noChart() {
    this.ends = [];
    this.paths.clear();
    if (this.query.ranked) this.chart.replaceChildren();
  }

  bump(windows) {
    const { chart } = this;
    this.drawing.hidden = windows.length < 2;
    const wide = this.width ||= this.drawing.clientWidth;
    if (wide < 60 || windows.length < 2) { this.noChart(); return; }
    const k = Math.max(...windows.map((each) => this.shownRows(each).reduce((most, { row }) => Math.max(most, row.rank), 0)), 2);
    const last = this.shownRows(windows.at(-1)), least = (k - 1) * (k > 12 ? 12 : 15) + 28;
    this.drawing.style.minHeight = `${least}px`;
    const high = Math.max(least, this.height), step = Math.min(ROW, (high - 28) / (k - 1)), top = step === ROW ? ROW / 2 : 12, left = 8;
    pen.font = FONTS.chart;
    const names = Math.min(last.reduce((most, { key }) => Math.max(most, pen.measureText(key).width), 0) + 12, wide * 0.4), right = wide - names;
    put(chart, "viewBox", `0 0 ${wide} ${high}`);
    const newest = windows.length - 1;
    const x = (i) => left + (i / newest) * (right - left - 8);
    const y = (rank) => top + (rank - 1) * step;
    const lines = new Map();
    windows.forEach((each, i) => {
      const px = x(i).toFixed(1), mid = ((x(i - 1) + x(i)) / 2).toFixed(1);
      for (const { key, id, row } of this.shownRows(each)) {
        let line = lines.get(key);
        if (!line) lines.set(key, line = { id, path: "", last: -2, rank: 0 });
        const { rank } = row;
        if (line.last !== i - 1) line.path += `M${px},${y(rank)}h.01`;
        else line.path += line.rank === rank ? `H${px}` : `C${mid},${y(line.rank)} ${mid},${y(rank)} ${px},${y(rank)}`;
        line.last = i;
        line.rank = rank;
      }
    });
    this.pathsOf(lines, newest);
    const ends = telling(last.map(({ key }) => key));
    let low = -Infinity;
    last.forEach(({ id, key, row }, i) => {
      const end = this.ends[i] ||= { dot: chart.appendChild(draw("circle", { r: 3.5 })), name: chart.appendChild(draw("text", { class: "name" }, "")) };
      if (end.id !== id) {
        end.id = id;
        end.dot.style.fill = colour(id);
        for (const each of [end.dot, end.name]) put(each, "data-id", id);
      }
      put(end.dot, "cx", x(newest).toFixed(1));
      low = Math.max(low + 12, y(row.rank)); // some may share a rank
      put(end.dot, "cy", y(row.rank));
      put(end.name, "x", (x(newest) + 9).toFixed(1));
      put(end.name, "y", low + 4);
      write(end.name, cut(key, names - 12, FONTS.chart, ends));
    });
    for (const { dot, name } of this.ends.splice(last.length)) { dot.remove(); name.remove(); }
  }

  pathsOf(lines, newest) {
    // Lines that are no more give their elements to those that came.
    const free = [...this.paths].filter(([key]) => !lines.has(key)).map(([key, path]) => { this.paths.delete(key); return path; });
    for (const [key, line] of lines) {
      let path = this.paths.get(key);
      if (!path) {
        path = free.pop() || this.chart.insertBefore(draw("path", { class: "line" }), this.chart.firstChild);
        put(path, "data-id", line.id);
        this.paths.set(key, path);
      }
      put(path, "d", line.path);
      const gone = line.last !== newest;
      if (path.classList.contains("gone") !== gone) path.classList.toggle("gone", gone);
      this.stroke(path);
    }
    for (const path of free) path.remove();
  }

  plainRows(rows) {
    const names = this.heads, { body } = this;
    while (body.children.length > rows.length) body.lastChild.remove();
    rows.forEach(({ row }, i) => {
      const tr = body.children[i] || body.appendChild(make("tr", {}, ...names.map(() => make("td"))));
      names.forEach((name, at) => write(tr.children[at], this.text(name, row[name])));
    });
  }

  scatter(rows, jump) {
    const { chart, width, query } = this;
    const axes = Object.entries(query.spec.prefer).filter(([, wish]) => wish !== "diff").slice(0, 2);
    if (axes.length < 2 || !width) return;
    const [[xName, xWish], [yName, yWish]] = axes;
    const wide = width, least = Math.round(Math.min(300, Math.max(210, wide * 0.62))), high = Math.max(least, this.height);
    this.drawing.style.minHeight = `${least}px`;
    put(chart, "viewBox", `0 0 ${wide} ${high}`);
    const box = { left: 46, right: wide - 14, top: 12, bottom: high - 34 };
    const x = scale(rows.map(({ row }) => Number(row[xName])), box.left + 10, box.right - 10);
    const y = scale(rows.map(({ row }) => Number(row[yName])), box.bottom - 10, box.top + 10);
    if (!this.frame) {
      this.frame = { grid: draw("g"), area: draw("path", { class: "area" }), stairs: draw("path", { class: "stairs" }), points: draw("g") };
      chart.replaceChildren(this.frame.grid, this.frame.area, this.frame.stairs, this.frame.points);
    }
    const axis = (name, wish) => `${name}${/^(bytes)?$/.test(query.units[name] || "") || name.endsWith(query.units[name]) ? "" : `, ${query.units[name]}`}: ${wish === "min" ? "lower" : "higher"} is better`;
    const ticks = JSON.stringify([wide, high, x.ticks, y.ticks, x.ticks.map(x), y.ticks.map(y)]);
    if (ticks !== this.frame.ticks) this.frame.grid.replaceChildren(
      ...x.ticks.flatMap((tick) => [draw("line", { class: "grid", x1: x(tick), x2: x(tick), y1: box.top, y2: box.bottom }),
        label2(tickText(tick, query.units[xName]), x(tick), box.bottom + 14, "middle")]),
      ...y.ticks.flatMap((tick) => [draw("line", { class: "grid", x1: box.left, x2: box.right, y1: y(tick), y2: y(tick) }),
        label2(tickText(tick, query.units[yName]), box.left - 5, y(tick) + 4, "end")]),
      label2(axis(xName, xWish), box.right, high - 4, "end"),
      label2(axis(yName, yWish), box.left, 8, "start"));
    this.frame.ticks = ticks;
    const sorted = [...rows].sort((a, b) => a.row[xName] - b.row[xName]);
    const corner = (a, b) => {
      const far = (u, v, w) => (w === "min" ? Math.max(u, v) : Math.min(u, v));
      return [far(a.row[xName], b.row[xName], xWish), far(a.row[yName], b.row[yName], yWish)];
    };
    let path = "";
    sorted.forEach((each, i) => {
      const at = `${x(each.row[xName]).toFixed(1)},${y(each.row[yName]).toFixed(1)}`;
      if (!i) path = `M${at}`;
      else {
        const [cx, cy] = corner(sorted[i - 1], each);
        path += `L${x(cx).toFixed(1)},${y(cy).toFixed(1)}L${at}`;
      }
    });
    put(this.frame.stairs, "d", path);
    const worse = yWish === "max" ? box.bottom : box.top;
    if (sorted.length) {
      const [first, last] = [sorted[0], sorted.at(-1)];
      const ends = xWish === "min" ? [`L${box.right},${y(last.row[yName]).toFixed(1)}V${worse}`, `H${x(first.row[xName]).toFixed(1)}Z`]
        : [`V${worse}`, `H${box.left}V${y(first.row[yName]).toFixed(1)}Z`];
      this.frame.area.setAttribute("d", path + ends.join(""));
    } else this.frame.area.setAttribute("d", "");
    const fresh = new Map();
    for (const { id, key, row } of rows) {
      let point = this.points.get(key);
      if (!point) {
        point = draw("g", { class: "point", tabindex: 0, role: "img", "data-id": id }, draw("circle", { r: 6 }), draw("text", { y: -11, "text-anchor": "middle" }));
        point.style.setProperty("--c", colour(id));
        this.frame.points.append(point);
        if (!calm.matches && !jump) point.firstChild.animate([{ r: 0 }, { r: 11 }, { r: 6 }], { duration: 450, easing: "ease-out" });
      }
      const px = x(row[xName]), text = point.lastChild;
      point.style.transform = `translate(${px.toFixed(1)}px, ${y(row[yName]).toFixed(1)}px)`;
      write(text, key);
      put(text, "text-anchor", px > wide * 0.65 ? "end" : px < wide * 0.3 ? "start" : "middle");
      put(text, "y", y(row[yName]) < 34 ? 20 : -11);
      put(point, "aria-label", `${key}: ${xName} ${this.text(xName, row[xName])}, ${yName} ${this.text(yName, row[yName])}`);
      fresh.set(key, point);
    }
    for (const [key, point] of this.points) if (!fresh.has(key)) {
      point.classList.add("leaving");
      setTimeout(() => point.remove(), calm.matches ? 0 : 400);
    }
    this.points = fresh;
  }

  tint() {
    for (const { dot, id } of [...this.lines, ...this.ends]) dot.style.background = dot.style.fill = colour(id);
    for (const path of this.paths.values()) this.stroke(path);
    for (const point of this.points.values()) point.style.setProperty("--c", colour(point.dataset.id));
  }

  stroke(path) {
    path.style.stroke = path.classList.contains("gone") ? "" : colour(path.dataset.id);
  }

  // Lighting, keys, taking the answer away ---

  relight() {
    const lit = view.lit;
    if (lit === null && !this.lighted) return;
    this.lighted = lit !== null;
    let knows = false;
    const mark = (element, id) => { const hit = lit !== null && id === lit; element.classList.toggle("lit", hit); knows ||= hit; };
    for (const line of this.lines) mark(line.tr, line.id);
    for (const path of this.paths.values()) mark(path, path.dataset.id);
    for (const end of this.ends) { mark(end.dot, end.id); mark(end.name, end.id); }
    for (const point of this.points.values()) mark(point, point.dataset.id);
    this.element.classList.toggle("dimming", knows);
  }

  arrows(event) {
    const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    const rows = [...this.body.children];
    const at = rows.indexOf(document.activeElement);
    if (event.key === "Enter" && at >= 0) { pin(rows[at].dataset.id); event.preventDefault(); }
    if (!by || at < 0) return;
    const next = rows[Math.max(0, Math.min(rows.length - 1, at + by))];
    this.rove(next);
    event.preventDefault();
  }

  rove(next) {
    for (const { tr } of this.lines) if (tr.tabIndex !== (tr === next ? 0 : -1)) tr.tabIndex = tr === next ? 0 : -1;
    next.focus({ preventScroll: true });
    next.scrollIntoView({ block: "nearest" });
  }

  csv() {
    const quote = (value) => {
      let text = String(value ?? "");
      // A table program would take such text for a formula; a number stays one.
      if (typeof value === "string" && /^[=+\-@\t\r]/.test(text) && !/^-?\d+$/.test(text)) text = `'${text}`;
      return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
    };
    const rows = this.last ? this.mine(this.last.rows) : [];
    return [this.query.columns, ...rows.map((row) => this.query.columns.map((name) => row[name]))].map((cells) => cells.map(quote).join(",")).join("\r\n") + "\r\n";
  }

  download() {
    const file = new Blob([this.csv()], { type: "text/csv" });
    const link = make("a", { href: URL.createObjectURL(file), download: `${this.query.name} ${this.last ? this.last.end : ""}.csv`.replace(/[^\w .+-]/g, "-") });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  }
}

const label = (group) => Object.values(group).map(String).join(" · ");

// Only what differs is written, so that the browser draws no more.
function write(element, text) {
  const node = element.firstChild;
  if (!node) element.append(text);
  else if (node.data !== text) node.data = text;
}

function put(element, name, value) {
  if (element.getAttribute(name) !== String(value)) element.setAttribute(name, value);
}

const GLIDES = { duration: 300, easing: "cubic-bezier(.2, .7, .2, 1)" };
// The same in six steps, for answers that come fast: each step costs as much as a frame.
const STEPS = { duration: 240, easing: "linear(0 0% 17%, .45 17% 33%, .7 33% 50%, .86 50% 67%, .95 67% 83%, 1 83% 100%)" };
// What leaves is gone before another takes its place.
const ARRIVES = { duration: 500, easing: "linear" };
const LEAVES = [{ opacity: 0.9, transform: "none" }, { opacity: 0, transform: "translateX(24px)", offset: 0.4 }, { opacity: 0 }];
const ENTERS = [{ opacity: 0, transform: "translateX(-14px)" }, { opacity: 0, transform: "translateX(-14px)", offset: 0.45, easing: "ease-out" }, { opacity: 1, transform: "none" }];
const tickText = (tick, unit) => (unit === "bytes" ? bytes(tick) : short.format(tick));
const label2 = (text, x, y, anchor) => draw("text", { x, y, "text-anchor": anchor }, text);

function scale(values, low, high) {
  // Linear, or logarithmic where positive values span more than two decades.
  const known = values.filter(Number.isFinite);
  let [least, most] = known.length ? [Math.min(...known), Math.max(...known)] : [0, 1];
  const log = least > 0 && most / least > 100;
  const f = log ? Math.log10 : (v) => v;
  if (least === most) { least -= Math.abs(least) * 0.1 + 0.5; most += Math.abs(most) * 0.1 + 0.5; }
  const [a, b] = [f(least), f(most)];
  const place = (value) => low + ((f(Number(value)) - a) / (b - a)) * (high - low);
  place.ticks = [];
  if (log) {
    const every = Math.ceil((b - a) / 5);
    for (let e = Math.ceil(a); e <= b; e += every) place.ticks.push(10 ** e);
  } else {
    const raw = (b - a) / 4, size = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 5, 10].map((m) => m * size).find((each) => each >= raw);
    for (let v = Math.ceil(a / step) * step; v <= b + step * 1e-9; v += step) place.ticks.push(Number(v.toPrecision(12)));
  }
  return place;
}

function light(id) {
  if (view.lit === (id ?? null)) return;
  view.lit = id ?? null;
  for (const card of view.cards) card.relight();
}

function pin(id) {
  view.pinned = view.pinned === id ? null : id;
  light(view.pinned ?? id);
  remember();
}

async function copy(text, button) {
  const before = button.textContent;
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  } catch {
    const area = make("textarea", { value: text });
    document.body.append(area);
    area.select();
    button.textContent = document.execCommand("copy") ? "Copied" : "Not allowed";
    area.remove();
  }
  setTimeout(() => { button.textContent = before; }, 1500);
}

// Lines of cards, all filled: about as many in each. A wide card counts as two.
function arrange() {
  const wide = parseFloat(getComputedStyle($("cards")).width) + GAP, fit = Math.max(1, Math.floor(wide / (LEAST + GAP)));
  const size = ({ query }) => Math.min(fit, query.wide ? 2 : 1), rest = [...view.cards];
  let left = rest.reduce((sum, card) => sum + size(card), 0);
  for (let lines = Math.ceil(left / fit); rest.length; lines = Math.max(1, lines - 1)) {
    const line = [rest.shift()], most = Math.min(fit, Math.max(size(line[0]), Math.ceil(left / lines)));
    let full = size(line[0]);
    while (rest.length && full + size(rest[0]) <= most) { full += size(rest[0]); line.push(rest.shift()); }
    left -= full;
    const width = (card) => (wide / full) * size(card) - GAP, broad = line.every((card) => width(card) > BROAD);
    for (const card of line) {
      card.element.style.flexBasis = `${width(card) - 0.02}px`;
      card.element.classList.toggle("broad", broad); // the chart beside the ranking
    }
  }
}

// Drawing all, once per frame ---

// A few rankings a second are enough to read. After a slow picture, the next one waits longer.
let waiting = false, drawn = 0, cost = 0, charts = 0;
const painted = new MessageChannel();
painted.port1.onmessage = () => { cost = Math.min(200, performance.now() - drawn); };

function refresh() {
  if (waiting) return;
  waiting = true;
  const now = performance.now(), hasty = view.cards.filter((card) => card.fast(now));
  const pause = hasty.length ? Math.max(HASTE, TURN * hasty.filter((card) => card.seen).length) : PAUSE;
  setTimeout(() => requestAnimationFrame(() => {
    waiting = false;
    drawn = performance.now();
    charts = Math.ceil(pause / 250); // the other charts have their turn in the next pictures
    dates();
    paint();
    painted.port2.postMessage(null);
    for (const card of view.cards) card.render(drawn);
    travelBar();
  }), Math.max(0, drawn + Math.max(pause, REST * cost) - now));
}

let alarm = 0, alarmAt = Infinity;
function later(time) {
  if (time >= alarmAt) return;
  clearTimeout(alarm);
  alarmAt = time;
  alarm = setTimeout(() => { alarmAt = Infinity; refresh(); }, time - performance.now());
}

// Time travel ---

function timeline() {
  // All ends there are, of the kind that most cards have: times, or counts of rows.
  const kinds = { number: new Map(), string: new Map() };
  for (const card of view.cards) for (const answer of card.visible()) kinds[typeof answer.end].set(answer.order, answer.end);
  const chosen = kinds.string.size >= kinds.number.size ? kinds.string : kinds.number;
  return [...chosen].sort(([a], [b]) => a - b).map(([, end]) => end);
}

// A long list; while the newest answers are shown, it may be some moments old.
let listed = [], listedAt = -Infinity;
function someEnds() {
  const old = performance.now() - listedAt;
  if (view.end === null && old < LISTED) {
    later(listedAt + LISTED);
    return listed;
  }
  listedAt = performance.now();
  return (listed = timeline());
}

function travelBar() {
  const ends = someEnds();
  const past = view.end !== null;
  $("travel").hidden = !ends.length;
  $("travel").classList.toggle("past", past);
  const slider = $("slider");
  put(slider, "max", Math.max(0, ends.length - 1));
  const limit = past ? order(view.end) : Infinity;
  let at = ends.length - 1;
  while (at > 0 && order(ends[at]) > limit) at--;
  if (slider.value !== String(at)) slider.value = at;
  put(slider, "aria-valuetext", past ? `the past, ${clock(ends[at], view.step)}` : "now");
  write($("pause"), past ? "Resume" : "Pause");
  const ago = ends.length - 1 - at;
  write($("when"), past ? `Showing the past: ${clock(ends[at], view.step)}${ago ? `, ${whole.format(ago)} window${ago > 1 ? "s" : ""} ago` : ""}` : `Showing now · Windows kept: ${whole.format(Math.max(...view.cards.map((card) => card.kept)))}`);
  liveSign();
}

function liveSign() {
  const sign = $("live"), past = view.end !== null, state = view.status?.state || "live";
  sign.hidden = false;
  put(sign, "class", `live ${!view.connected ? "lost" : past ? "past" : state === "live" ? "" : "over"}`);
  write(sign, !view.connected ? "reconnecting" : past ? "the past" : state);
}

function go(end) {
  view.end = end === null || end === undefined ? null : String(end);
  remember();
  refresh();
}

async function step(by) {
  await loadAll();
  const ends = timeline();
  if (!ends.length) return;
  let at = ends.length - 1;
  if (view.end !== null) while (at > 0 && order(ends[at]) > order(view.end)) at--;
  at = Math.max(0, at + by);
  go(at >= ends.length ? null : ends[at]);
}

function pause() {
  const ends = timeline();
  if (view.end !== null) go(null);
  else if (ends.length) { go(ends.at(-1)); loadAll(); }
}

async function loadAll() {
  if (view.whole) return;
  view.whole = true;
  await Promise.all(view.cards.map((card) => load(card, view.board.history)));
  refresh();
}

async function load(card, last) {
  const reply = await fetch(`/api/answers/${encodeURIComponent(card.query.name)}?last=${last}`);
  if (!reply.ok) return;
  const { answers } = await reply.json();
  for (const answer of answers) card.add(answer);
}

// Status ---

function ago(seconds) {
  if (seconds < 0) return `${ago(-seconds)} ahead`;
  if (seconds < 10) return `${plainly.format(Number(seconds.toFixed(1)))} s`;
  const [size, unit] = [[86400, "days"], [3600, "hours"], [60, "minutes"], [1, "s"]].find(([each]) => seconds >= 2 * each) || [1, "s"];
  return `${whole.format(seconds / size)} ${unit}`;
}

function tellStatus() {
  const status = view.status;
  if (!status) return;
  // Files may be old.
  const { state, behind, subscribers } = status, finished = state !== "live", old = behind > 172800 && view.board.sources.every(({ kind }) => kind === "files");
  const parts = [
    ...(finished ? [] : [[number(Math.round(status.rows_per_second)), "rows/s"]]),
    [number(status.rows), "rows"],
    ...(status.watermark === null ? [] : [[clock(status.watermark, view.step), "reached"]]),
    ...(behind === null || finished || old ? [] : [[ago(behind), behind < 0 ? "of the clock" : "behind the clock"]]),
    [number(status.late), "late"], [number(status.bad), "bad"], [bytes(status.state_bytes), "state"],
    [status.engine, "engine"], [number(subscribers), subscribers === 1 ? "viewer" : "viewers"],
  ];
  const line = $("status");
  if (line.children.length !== parts.length) line.replaceChildren(...parts.map(() => make("span", {}, make("b"), "")));
  parts.forEach(([value, what], i) => {
    write(line.children[i].firstChild, value);
    if (line.children[i].lastChild.data !== ` ${what}`) line.children[i].lastChild.data = ` ${what}`;
  });
  // Without a connection nothing else is known.
  const wrong = view.connected ? status.trouble : [`the connection was lost at ${format(view.zone || undefined, { timeStyle: "medium" }).format(view.heard)}; trying again`];
  write($("trouble"), wrong.map((each) => each[0].toUpperCase() + each.slice(1)).join(" · "));
  $("trouble").hidden = !wrong.length;
  line.classList.toggle("old", !view.connected);
  const most = status.bad_rows.reduce((worst, each) => (each.bad > worst.bad ? each : worst), { bad: 0 });
  $("bad").hidden = !most.bad;
  if (most.bad) {
    write($("bad-sum"), `Bad rows, left out: ${number(most.bad)} of ${number(most.rows)} (${percent(most.bad / most.rows)})`);
    const told = status.bad_rows.map(({ query, bad, rows, reason }) => `${view.cards.find((card) => card.query.name === query)?.query.title || query}: `
      + `${number(bad, true)} of ${number(rows, true)} rows (${percent(bad / rows)}). ${reason ? `The first: ${reason}` : "The reason is not known."}`);
    if (told.join() !== $("bad-list").textContent) $("bad-list").replaceChildren(...told.map((text) => make("li", {}, text)));
  }
  liveSign();
}

let lastSaid = 0, unsaid = 0;
function announce(card, answer) {
  // At most every ten seconds, for screen readers.
  if (view.end !== null || document.hidden || !card.query.ranked) return;
  const leader = card.mine(answer.rows)[0];
  const moved = card.mine(answer.changes).find((row) => row.to_rank === 1);
  if (!leader || !moved) return;
  const text = `${card.query.title}: ${card.keyed([leader])[0].id} is now first.`;
  clearTimeout(unsaid);
  unsaid = setTimeout(() => { lastSaid = Date.now(); $("said").textContent = text; }, Math.max(0, lastSaid + 10000 - Date.now()));
}

// Start ---

function look() {
  if (view.theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = view.theme;
  $("theme").value = view.theme;
}

function zones() {
  const here = Intl.DateTimeFormat().resolvedOptions().timeZone;
  const all = Intl.supportedValuesOf ? Intl.supportedValuesOf("timeZone") : [];
  const option = (value, text) => make("option", { value }, text);
  $("zone").replaceChildren(option("", `${here} (here)`), option("UTC", "UTC"), ...all.map((name) => option(name, name.replaceAll("_", " "))));
  $("zone").value = view.zone;
}

function controls() {
  zones();
  look();
  $("zone").onchange = (event) => {
    view.zone = event.target.value;
    for (const card of view.cards) card.shown = null;
    remember(); refresh(); tellStatus();
  };
  $("theme").onchange = (event) => { view.theme = event.target.value; look(); remember(); };
  $("link").onclick = (event) => copy(location.href, event.target);
  $("help").onclick = () => $("keys").showModal();
  $("pause").onclick = pause;
  $("previous").onclick = () => step(-1);
  $("next").onclick = () => step(1);
  $("now").onclick = () => go(null);
  $("slider").onpointerdown = loadAll;
  $("slider").oninput = (event) => {
    const ends = timeline(), at = Number(event.target.value);
    go(at >= ends.length - 1 ? null : ends[at]);
    loadAll();
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || $("keys").open || $("login").open) return;
    if (event.target.closest("input:not([type=range]), select, textarea")) return;
    const acts = { n: () => go(null), N: () => go(null), Escape: () => go(null), ArrowLeft: () => step(-1), ArrowRight: () => step(1),
      d: dark, D: dark, " ": event.target.closest("button") ? null : pause };
    const act = acts[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  });
  document.addEventListener("visibilitychange", refresh);
}

function dark() {
  const now = view.theme === "auto" ? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light") : view.theme;
  view.theme = now === "dark" ? "light" : "dark";
  look();
  remember();
}

function login() {
  $("login").showModal();
  $("login-form").onsubmit = async (event) => {
    event.preventDefault();
    const reply = await fetch("/api/session", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ token: $("token").value }) });
    if (reply.ok) { $("login").close(); start(); } else $("login-problem").textContent = "Wrong token.";
  };
}

function listen() {
  const events = new EventSource("/api/events");
  const waiting = [];
  let ready = false;
  const take = (answer) => {
    const card = view.cards.find((each) => each.query.name === answer.name);
    if (!card) return;
    card.add(answer);
    card.arrived();
    announce(card, answer);
  };
  events.addEventListener("open", () => { view.connected = true; liveSign(); tellStatus(); });
  events.addEventListener("answer", (event) => {
    const answer = JSON.parse(event.data);
    if (ready) { take(answer); if (view.end === null) refresh(); } else waiting.push(answer);
  });
  events.addEventListener("status", (event) => { view.status = JSON.parse(event.data); view.heard = Date.now(); tellStatus(); });
  events.addEventListener("reset", async () => {
    for (const card of view.cards) card.clear();
    await Promise.all(view.cards.map((card) => load(card, view.whole ? view.board.history : SPARKS)));
    refresh();
  });
  events.addEventListener("error", () => {
    view.connected = false;
    liveSign();
    tellStatus();
    if (events.readyState === EventSource.CLOSED) setTimeout(() => { events.close(); listen(); }, 2000);
  });
  Promise.all(view.cards.map((card) => load(card, view.whole ? view.board.history : SPARKS))).catch(() => {}).then(() => {
    ready = true;
    waiting.forEach(take);
    refresh();
  });
}

async function start() {
  const reply = await fetch("/api/board").catch(() => null);
  if (!reply) { $("status").textContent = "The service cannot be reached; trying again…"; setTimeout(start, 2000); return; }
  if (reply.status === 401) { login(); return; }
  view.board = await reply.json();
  $("title").textContent = view.board.name;
  document.title = `${view.board.name} · Skyband`;
  view.step = Math.min(...view.board.queries.map(({ window: over }) => over.step || 1));
  for (const query of view.board.queries) {
    const card = new Card(query);
    view.cards.push(card);
    $("cards").append(card.element);
  }
  new ResizeObserver(arrange).observe($("cards"));
  view.lit = view.pinned;
  view.whole = view.end !== null;
  listen();
}

controls();
start();
