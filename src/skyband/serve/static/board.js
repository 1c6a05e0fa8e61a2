// The board: one card per query, drawn with plain DOM and SVG.
//
// Answers come from /api/answers once and from /api/events ever after. A card keeps the answers of
// its query; what is shown is either the newest of them or, after a step back, those of one moment.

const $ = (id) => document.getElementById(id);
const SVG = document.querySelector("svg").namespaceURI;
const BUMPS = 30; // windows in the chart of ranks
const LISTED = 1000; // milliseconds for which a list of all ends is good enough
const SPARKS = 60; // windows in the small chart of totals
const PAUSE = 220; // milliseconds between two pictures, at least
const HASTE = 500; // and where answers come faster than one can read
const TURN = 100; // and then for each card in sight, so that many of them do not cost more than a few
const REST = 5; // and at least so many times what the last picture took
const SLOW = 1000; // milliseconds between two charts of a card whose answers come fast
const AWAY = 2000; // and between two pictures of such a card while it is out of sight
const FAST = 5; // answers a second that count as fast
const HIDDEN = new Set(["window_start", "window_end", "revision", "rank", "count", "error", "topk_probability", "decayed"]);
const ROW = 32; // height of a row, as in the style sheet
const calm = matchMedia("(prefers-reduced-motion: reduce)");
const place = new URLSearchParams(location.hash.slice(1));

const view = {
  board: null, cards: [], zone: place.get("zone") || "", theme: place.get("theme") || "auto",
  end: place.get("end"), // the moment that is shown; null is now
  pinned: place.get("row"), lit: null, connected: false, heard: Date.now(), whole: false, status: null,
};

// Small helpers -----------------------------------------------------------------------------------

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

function number(value, full = false) {
  if (value === null || value === undefined) return "–";
  if (typeof value === "string" && /^-?\d{16,}$/.test(value)) value = full ? BigInt(value) : Number(value);
  if (typeof value === "bigint") return value.toLocaleString();
  if (typeof value !== "number") return String(value);
  if (full) return exactly.format(value);
  return Math.abs(value) >= 1e6 ? short.format(value) : plainly.format(value);
}

function bytes(count) {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let at = 0;
  for (; count >= 1000 && at < units.length - 1; at++) count /= 1000;
  return `${plainly.format(Number(count.toPrecision(3)))} ${units[at]}`;
}

let clocks = {};
function clock(value, date = false, fine = true) {
  if (typeof value === "number") return whole.format(value);
  if (value === null || value === undefined) return "–";
  const naive = !/(Z|[+-]\d\d:\d\d)$/.test(value);
  const moment = new Date(naive ? `${value}Z` : value);
  if (Number.isNaN(moment.getTime())) return String(value);
  const zone = naive ? "UTC" : view.zone || undefined;
  const sub = fine && moment.getMilliseconds() ? 3 : undefined;
  const kind = `${zone}|${date}|${sub}`;
  clocks[kind] ??= new Intl.DateTimeFormat(undefined, {
    timeZone: zone, hour: "2-digit", minute: "2-digit", second: "2-digit", fractionalSecondDigits: sub,
    ...(date ? { year: "numeric", month: "short", day: "numeric" } : {}),
  });
  return clocks[kind].format(moment);
}

const order = (end) => (typeof end === "number" ? end : /^-?\d+$/.test(end) ? Number(end)
  : Date.parse(/(Z|[+-]\d\d:\d\d)$/.test(end) ? end : `${end}Z`));

const colours = new Map();
const colour = (id) => `var(--c${colours.get(id) ?? 0})`;

function paint(rows) {
  // An id has one colour in all cards; a new one gets the colour that the fewest rows beside it have.
  const fresh = rows.filter(({ id }) => !colours.has(id));
  if (!fresh.length) return;
  if (colours.size > 5000) colours.clear();
  const used = new Array(10).fill(0);
  for (const { id } of rows) if (colours.has(id)) used[colours.get(id)]++;
  for (const { id } of rows) if (!colours.has(id)) {
    const chosen = used.indexOf(Math.min(...used));
    used[chosen]++;
    colours.set(id, chosen);
  }
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

// What a query asks, in words ---------------------------------------------------------------------

function asked({ kind, spec, window: over }) {
  const list = (value) => (Array.isArray(value) ? value.join(", ") : value);
  const best = spec.largest === false ? "lowest" : "highest";
  const said = {
    TopK: () => `${spec.k} ${best} by ${spec.score}`,
    HeavyHitters: () => {
      const of = spec.aggregate ? `${spec.aggregate} of ${spec.weight}` : spec.weight;
      const most = spec.largest === false ? "smallest" : "greatest";
      const often = spec.against ? "growing most" : "most frequent";
      return `${spec.k} ${of && !spec.against ? `${most} by ${of}` : often}: ${list(spec.item)}`;
    },
    UncertainTopK: () => `${spec.k} likeliest to be ${best} by ${spec.score}`,
    FusedTopK: () => `${spec.k} best over ${list(spec.streams)}`,
    Skyline: () => `skyline: ${wishes(spec.prefer)}`,
    SkylineJoin: () => `skyline of ${spec.left} and ${spec.right}: ${wishes(spec.prefer)}`,
  };
  const per = spec.by && spec.by.length ? `, for each ${list(spec.by)}` : "";
  return `${said[kind] ? said[kind]() : kind}${per} · ${span(over)}`;
}

const wishes = (prefer) => Object.entries(prefer).map(([name, wish]) =>
  `${{ min: "low", max: "high" }[wish] || "each"} ${name}`).join(", ");

function span(over) {
  const every = over.slide ? `, every ${over.slide}` : "";
  if (over.half_life) return `half-life ${over.half_life}${every}`;
  if (over.kind === "count") return `last ${whole.format(over.size)} rows, every ${whole.format(over.slide)}`;
  return over.size ? `last ${over.size}${every}` : `everything so far${every}`;
}

const kept = (count, all) => (all ? `${whole.format(count)} windows kept` : `last ${whole.format(count)} windows`);

function promise(answer) {
  if (answer.exact) return ["exact", "exact"];
  const told = Object.entries(answer.bounds).map(([name, value]) => `${name.replaceAll("_", " ")} ${number(value)}`);
  return ["about", told.length ? `within ${told.join(", ")}` : "approximate"];
}

// A card ------------------------------------------------------------------------------------------

class Card {
  constructor(query) {
    this.query = query;
    this.answers = []; // oldest first
    this.known = new Set();
    this.all = false; // whether these are all that the service keeps
    this.lines = []; // the rows of the table, from the top; they stay where they are and change what they say
    this.places = new Map(); // where a key stands in them
    this.ends = []; // the names at the ends of the lines in the chart
    this.paths = new Map(); // the lines themselves, by key
    this.points = new Map();
    this.arrivals = []; // when the last answers came, to see how fast they come
    this.drawnAt = this.chartedAt = -Infinity;
    this.seen = true; // whether the card is in sight
    this.group = null;
    this.width = 0;
    const given = place.get(`group.${query.name}`);
    if (given) try { this.group = JSON.parse(given); } catch { this.group = null; }
    this.build();
  }

  build() {
    const { query } = this;
    const title = make("h2", { id: `q-${view.cards.length}` }, query.name);
    this.total = make("b", {}, "–");
    const counted = make("span", {}, `${query.spec.weight || "rows"} in the window`);
    this.spark = draw("svg", { class: "spark", viewBox: "0 0 96 22", preserveAspectRatio: "none", "aria-hidden": "true" });
    this.facts = make("p", { className: "facts" });
    const head = make("header", {}, title, make("p", { className: "asks" }, asked(query)),
      make("div", { className: "sums" }, this.total, counted, this.spark), this.facts);
    if (query.by.length) head.append(this.picker());
    if (query.positions) head.append(this.finder());
    this.body = make("tbody");
    this.caption = make("caption", { className: "hidden" }, query.name);
    const value = query.spec.weight && query.value === "count" ? `sum of ${query.spec.weight}` : query.value || "Value";
    this.heads = query.ranked ? ["Rank", "Change", query.key.join(", ") || "Row", value] : query.columns.slice(2);
    const row = make("tr", {}, ...this.heads.map((name) => make("th", { scope: "col" }, name)));
    this.table = make("table", {}, this.caption, make("thead", {}, row), this.body);
    if (query.ranked) { // laid out as blocks, which would hide from some readers that it is a table
      for (const [element, role] of [[this.table, "table"], [this.body, "rowgroup"], [row, "row"], [row.parentNode, "rowgroup"]]) element.role = role;
      for (const head of row.children) head.role = "columnheader";
      const shown = new Set([...query.key, ...query.by, query.value, "window_start", "window_end", "revision", "rank", "error", query.spec.time, "count"]);
      this.beside = query.columns.filter((name) => !shown.has(name));
    }
    this.ghosts = make("div", { ariaHidden: "true" });
    this.list = make("div", { className: query.ranked ? "list" : "hidden" }, this.table, this.ghosts);
    this.chart = draw("svg", { class: `chart ${query.ranked ? "bump" : "scatter"}`, role: query.ranked ? "presentation" : "group" });
    if (!query.ranked) this.chart.setAttribute("aria-label", `${query.name}, drawn`);
    else this.chart.setAttribute("aria-hidden", "true");
    this.empty = make("p", { className: "empty" }, "No answer yet: the first window has not ended.");
    this.time = make("time");
    const button = (text, act) => { const found = make("button", { type: "button" }, text); found.onclick = () => act(found); return found; };
    const more = make("p", { className: "more" }, this.time,
      button("Copy CSV", (b) => copy(this.csv(), b)), button("Download", () => this.download()));
    this.element = make("section", { className: "card" }, head, this.list, this.chart, this.empty, more);
    this.element.setAttribute("aria-labelledby", title.id);
    this.element.style.containIntrinsicBlockSize = `auto ${180 + (query.ranked ? 46 * (query.spec.k || 5) : 300)}px`;
    this.body.addEventListener("keydown", (event) => this.arrows(event));
    for (const [on, off] of [["mouseover", "mouseout"], ["focusin", "focusout"]]) {
      this.element.addEventListener(on, (event) => {
        const found = event.target.closest("[data-id]");
        if (found) light(found.dataset.id);
        if (on === "mouseover") this.explain(this.lines.find((line) => line.tr === found));
      });
      this.element.addEventListener(off, () => light(view.pinned));
    }
    this.element.addEventListener("click", (event) => {
      const found = event.target.closest("[data-id]");
      if (found) pin(found.dataset.id);
    });
    new ResizeObserver(([entry]) => {
      const width = Math.round(entry.contentRect.width);
      if (width < 60 || width === this.width) return; // too narrow to draw anything: what is there stays
      this.width = width;
      this.shown = null;
      refresh();
    }).observe(this.element);
    new IntersectionObserver((entries) => {
      this.seen = entries[entries.length - 1].isIntersecting;
      if (this.seen) refresh();
    }, { rootMargin: "150px" }).observe(this.element);
  }

  picker() {
    const list = make("datalist", { id: `g-${view.cards.length}` });
    this.choices = list;
    this.input = make("input", { type: "search", autocomplete: "off", spellcheck: false });
    this.input.setAttribute("list", list.id);
    this.input.setAttribute("aria-label", `${this.query.by.join(", ")} shown in ${this.query.name}`);
    const choose = (name) => {
      const group = this.groups().find((each) => label(each) === name);
      if (!group) return false;
      this.group = group;
      this.shown = null;
      remember();
      refresh();
      return true;
    };
    this.input.oninput = () => choose(this.input.value);
    this.input.onfocus = () => this.input.select();
    this.input.onblur = () => { this.input.value = this.group ? label(this.group) : ""; };
    const step = (by) => () => {
      const names = this.groups().map(label);
      const at = names.indexOf(this.group ? label(this.group) : "");
      if (names.length) choose(names[(at + by + names.length) % names.length]);
      this.input.value = this.group ? label(this.group) : "";
    };
    const button = (text, said, by) => {
      const found = make("button", { type: "button", ariaLabel: `${said} ${this.query.by.join(", ")}` }, text);
      found.onclick = step(by);
      return found;
    };
    return make("div", { className: "pick" }, make("span", {}, this.query.by.join(", ")), button("‹", "Previous", -1),
      this.input, button("›", "Next", 1), list);
  }

  finder() {
    const names = this.query.key.join(" · ");
    this.wanted = make("input", { type: "search", autocomplete: "off", spellcheck: false, placeholder: names });
    this.wanted.setAttribute("aria-label", `${names} to find in ${this.query.name}`);
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
    const wanted = new URLSearchParams({ id: listed(query.key.length === 1 ? [text] : text.split(" · ")) });
    if (this.group) wanted.set("group", listed(query.by.map((name) => this.group[name])));
    const reply = await fetch(`/api/position/${encodeURIComponent(query.name)}?${wanted}`).catch(() => null);
    const told = reply ? await reply.json() : { error: "the service cannot be reached" };
    if (this.wanted.value.trim() !== text) return; // another one was asked meanwhile
    write(this.stands, reply?.ok ? `${number(told.rank)} of ${number(told.of)}, with ${this.text(query.value, told.value)}`
      : reply?.status === 404 ? "not in the window" : told.error);
  }

  // Answers ---------------------------------------------------------------------------------------

  add(answer) {
    const first = answer.rows[0] || answer.changes[0] || {};
    const alone = this.query.window.kind === "count" ? this.query.by.map((name) => first[name]) : [];
    const mark = JSON.stringify([answer.end, alone]);
    answer.order = order(answer.end);
    answer.only = alone.length ? JSON.stringify(alone) : null;
    if (this.known.has(mark)) {
      // A window that was corrected takes the place of what was said of it before.
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
    // Whether answers come faster than one can read them. Then charts, and cards out of sight, wait.
    return this.arrivals.length > FAST && now - this.arrivals[0] < 1000;
  }

  arrived() {
    this.arrivals.push(performance.now());
    if (this.arrivals.length > FAST + 1) this.arrivals.shift();
  }

  clear() { this.answers = []; this.known.clear(); this.shown = this.last = null; }

  visible() {
    if (!this.group || this.query.window.kind !== "count") return this.answers;
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
    const found = new Map();
    const from = this.query.window.kind === "count" ? this.answers : this.upto().slice(-1);
    for (const answer of from) for (const row of answer.rows) {
      const group = Object.fromEntries(this.query.by.map((name) => [name, row[name]]));
      found.set(JSON.stringify(group), group);
    }
    return [...found.values()].sort((a, b) => label(a).localeCompare(label(b)));
  }

  mine(rows) {
    if (!this.group) return rows;
    return rows.filter((row) => this.query.by.every((name) => row[name] === this.group[name]));
  }

  shownRows(answer) {
    // The chart reads the same answers again and again, so their keys are kept.
    const group = this.group ? label(this.group) : "";
    if (!answer.kept || answer.kept.group !== group) answer.kept = { group, rows: this.keyed(this.mine(answer.rows)) };
    return answer.kept.rows;
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

  // Drawing ---------------------------------------------------------------------------------------

  render(now) {
    const shown = this.upto();
    const answer = shown[shown.length - 1];
    if (this.choices && (this.filled !== answer || !this.group)) this.fillPicker();
    this.filled = answer;
    const group = this.group ? label(this.group) : "";
    const jump = this.shownGroup !== group || !this.shown;
    if (!jump && this.shown === answer && this.charted === answer) return;
    const fast = !jump && view.end === null && this.fast(now);
    if (fast && !this.seen && now < this.drawnAt + AWAY) { later(this.drawnAt + AWAY); return; }
    const anew = jump || this.shown !== answer;
    if (fast !== this.hasty) this.element.classList.toggle("fast", this.hasty = fast);
    this.shown = this.last = answer;
    this.shownGroup = group;
    this.empty.hidden = Boolean(answer);
    if (!answer) { this.wipe(); return; }
    const rows = this.shownRows(answer);
    paint(rows);
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
      write(this.caption, `${this.query.name}, window ${clock(answer.start)} to ${clock(answer.end)}`);
    } else later(Math.max(now, this.chartedAt) + SLOW);
    this.relight();
  }

  wipe() {
    if (view.end !== null) write(this.empty, "Nothing is kept of this moment.");
    this.body.replaceChildren();
    this.lines = [];
    this.places.clear();
    this.noChart();
    if (this.frame) this.frame.points.replaceChildren();
    this.points.clear();
    this.facts.replaceChildren();
    this.charted = undefined;
  }

  fillPicker() {
    const names = this.groups();
    if (!this.group && names.length) this.group = names[0];
    const text = names.map(label).join("\n");
    if (text !== this.listed) {
      this.listed = text;
      this.choices.replaceChildren(...names.map((each) => make("option", { value: label(each) })));
    }
    if (document.activeElement !== this.input) this.input.value = this.group ? label(this.group) : "";
  }

  header(answer, rows) {
    write(this.total, number(answer.total));
    const [kind, words] = promise(answer);
    const corrected = answer.revision > 1 ? `corrected ${answer.revision} times` : answer.revision ? "corrected" : "";
    const facts = [words, corrected, `${rows.length} ${rows.length === 1 ? "row" : "rows"}`, kept(this.visible().length, this.all)];
    if (!this.facts.firstChild) this.facts.append(...facts.map(() => make("span")));
    facts.forEach((text, i) => write(this.facts.children[i], text));
    if (this.facts.firstChild.className !== kind) this.facts.firstChild.className = kind;
    if (this.wanted?.value && view.end === null && performance.now() > this.askedAt + AWAY) this.locate();
    const start = answer.start === null ? "" : `${clock(answer.start)} – `;
    write(this.time, `${start}${clock(answer.end)}`);
  }

  sparkline(shown) {
    const answer = shown[shown.length - 1];
    this.total.title = answer.total === null ? "not known on this engine"
      : `${number(answer.total, true)} ${this.query.spec.weight || "rows"} in the window`;
    this.time.title = clock(answer.end, true);
    this.time.dateTime = String(answer.end);
    const totals = shown.filter((each) => each.total !== null).map((each) => Number(each.total));
    const most = Math.max(...totals, 1e-9);
    const at = (value, i) => `${((i / Math.max(1, totals.length - 1)) * 96).toFixed(1)},${(20 - (value / most) * 17).toFixed(1)}`;
    const line = totals.map(at).join("L");
    if (!this.spark.firstChild) this.spark.append(draw("path", { class: "under" }), draw("path"));
    put(this.spark.firstChild, "d", totals.length > 1 ? `M0,22L${line}L96,22Z` : "");
    put(this.spark.lastChild, "d", totals.length > 1 ? `M${line}` : "");
  }

  ranking(rows, answer, jump) {
    // A line of the table stays at its place, and what is new is written into it. What was
    // elsewhere before glides from there, by the known height of a row: nothing is measured.
    const { query, lines } = this;
    const value = (row) => Number(query.value ? row[query.value] : 0);
    const most = Math.max(...rows.map(({ row }) => Math.abs(value(row))).filter(Number.isFinite), 1e-12);
    const moves = new Map();
    for (const { key, row } of this.keyed(this.mine(answer.changes))) moves.set(key, row);
    const moving = !jump && this.seen && !calm.matches && !document.hidden;
    const held = lines.find((line) => line.tr === document.activeElement);
    const heldKey = held && held.key;
    const before = this.places;
    this.places = new Map(rows.map(({ key }, place) => [key, place]));
    rows.forEach((each, place) => {
      const line = lines[place] || this.addLine();
      if (line.key !== each.key && line.motion) { line.motion.cancel(); line.motion = null; }
      this.fill(line, each, value(each.row) / most, most, moves.get(each.key));
      const from = before.get(each.key);
      if (!moving || from === place) return;
      line.motion = line.tr.animate(from === undefined ? ENTERS : [{ transform: `translateY(${(from - place) * ROW}px)` }, { transform: "none" }], this.hasty ? STEPS : GLIDES);
    });
    while (lines.length > rows.length) lines.pop().tr.remove();
    const gone = [...before].filter(([key]) => !this.places.has(key));
    if (moving && gone.length <= before.size / 2) for (const [key, place] of gone) this.fade(key, place);
    if (held) { // the focus goes with the row
      const now = lines[this.places.get(heldKey)] || (lines.includes(held) ? held : lines[0]);
      if (now && now !== held) this.rove(now.tr);
      if (now) light(now.id);
    } else if (lines.length && !lines.some((line) => line.tr.tabIndex === 0)) lines[0].tr.tabIndex = 0;
    // The list keeps its height when there are fewer rows for a while.
    const tallest = Math.max(Math.min(this.tallest || 0, query.spec.k || 0), rows.length);
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
    write(line.text, key);
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
    // All digits, when somebody points at a row.
    if (!line) return;
    const { query } = this, { row } = line, error = Number(row.error || 0);
    line.name.title = [line.key, this.besides(row)].filter(Boolean).join("\n");
    line.number.title = error > 0 ? `between ${number(Number(row.count) - error, true)} and ${number(row.count, true)}`
      : query.value ? number(row[query.value], true) : "";
  }

  text(name, value) {
    return /^(timestamp|date)/.test(this.query.types[name] || "") ? clock(value) : number(value);
  }

  fade(key, place) {
    // The names that fade are used again and again: taking one away would cost a picture of its own.
    const { children } = this.ghosts, at = this.faded = ((this.faded ?? -1) + 1) % Math.max(10, this.query.spec.k || 0);
    const ghost = children[at] || this.ghosts.appendChild(make("div", { className: "ghost" }));
    write(ghost, key);
    ghost.style.translate = `0 ${place * ROW}px`;
    ghost.animate(LEAVES, this.hasty ? STEPS : { duration: 600, easing: "ease-in" });
  }

  noChart() {
    this.chart.style.height = "0";
    this.ends = [];
    this.paths.clear();
    if (this.query.ranked) this.chart.replaceChildren();
  }

  bump(windows) {
    const { chart, width } = this;
    const k = Math.max(...windows.map((each) => this.shownRows(each).reduce((most, { row }) => Math.max(most, row.rank), 0)), 1);
    if (!width || windows.length < 2) { this.noChart(); return; }
    const last = this.shownRows(windows[windows.length - 1]);
    const longest = last.reduce((most, { key }) => Math.max(most, key.length), 0);
    const step = k > 12 ? 12 : 15, top = 12, left = 8, names = Math.min(longest * 6.4 + 16, width * 0.4);
    const high = top + (k - 1) * step + 14, wide = width - 24, right = wide - names;
    chart.style.height = `${high + 6}px`;
    put(chart, "viewBox", `0 0 ${wide} ${high}`);
    const newest = windows.length - 1;
    const x = (i) => left + (i / newest) * (right - left - 8);
    const y = (rank) => top + (rank - 1) * step;
    const lines = new Map();
    windows.forEach((each, i) => {
      paint(this.shownRows(each));
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
    const room = Math.floor((names - 8) / 6.3);
    last.forEach(({ id, key, row }, i) => {
      const end = this.ends[i] ||= { dot: chart.appendChild(draw("circle", { r: 3.5 })), name: chart.appendChild(draw("text", { class: "name" }, "")) };
      if (end.id !== id) {
        end.id = id;
        end.dot.style.fill = colour(id);
        for (const each of [end.dot, end.name]) put(each, "data-id", id);
      }
      put(end.dot, "cx", x(newest).toFixed(1));
      put(end.dot, "cy", y(row.rank));
      put(end.name, "x", (x(newest) + 9).toFixed(1));
      put(end.name, "y", y(row.rank) + 4);
      write(end.name, key.length > room ? `${key.slice(0, room - 1)}…` : key);
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
        path.style.stroke = colour(line.id);
        this.paths.set(key, path);
      }
      put(path, "d", line.path);
      const gone = line.last !== newest;
      if (path.classList.contains("gone") !== gone) path.classList.toggle("gone", gone);
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
    const wide = width - 24, high = Math.round(Math.min(300, Math.max(210, wide * 0.62)));
    chart.style.height = `${high + 6}px`;
    put(chart, "viewBox", `0 0 ${wide} ${high}`);
    const box = { left: 46, right: wide - 14, top: 12, bottom: high - 34 };
    const x = scale(rows.map(({ row }) => Number(row[xName])), box.left + 10, box.right - 10);
    const y = scale(rows.map(({ row }) => Number(row[yName])), box.bottom - 10, box.top + 10);
    if (!this.frame) {
      this.frame = { grid: draw("g"), area: draw("path", { class: "area" }), stairs: draw("path", { class: "stairs" }), points: draw("g") };
      chart.replaceChildren(this.frame.grid, this.frame.area, this.frame.stairs, this.frame.points);
    }
    const wish = { min: "lower is better", max: "higher is better" };
    const ticks = JSON.stringify([wide, high, x.ticks, y.ticks, x.ticks.map(x), y.ticks.map(y)]);
    if (ticks !== this.frame.ticks) this.frame.grid.replaceChildren(
      ...x.ticks.flatMap((tick) => [draw("line", { class: "grid", x1: x(tick), x2: x(tick), y1: box.top, y2: box.bottom }),
        label2(short.format(tick), x(tick), box.bottom + 14, "middle")]),
      ...y.ticks.flatMap((tick) => [draw("line", { class: "grid", x1: box.left, x2: box.right, y1: y(tick), y2: y(tick) }),
        label2(short.format(tick), box.left - 5, y(tick) + 4, "end")]),
      label2(`${xName}: ${wish[xWish]}`, box.right, high - 4, "end"),
      label2(`${yName}: ${wish[yWish]}`, box.left, 8, "start"));
    this.frame.ticks = ticks;
    const sorted = [...rows].sort((a, b) => a.row[xName] - b.row[xName]);
    const corner = (a, b) => {
      // The staircase turns on the side that the two points leave undominated.
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
      const [first, last] = [sorted[0], sorted[sorted.length - 1]];
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
      put(point, "aria-label", `${key}: ${xName} ${number(row[xName])}, ${yName} ${number(row[yName])}`);
      fresh.set(key, point);
    }
    for (const [key, point] of this.points) if (!fresh.has(key)) {
      point.classList.add("leaving");
      setTimeout(() => point.remove(), calm.matches ? 0 : 400);
    }
    this.points = fresh;
  }

  // Lighting, keys, taking the answer away ----------------------------------------------------------

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
      let text = value === null || value === undefined ? "" : String(value);
      // A table program would take such text for a formula; a number stays one.
      if (typeof value === "string" && /^[=+\-@\t\r]/.test(text) && !/^-?\d+$/.test(text)) text = `'${text}`;
      return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
    };
    const rows = this.last ? this.mine(this.last.rows) : []; // shown is null while a new picture is due
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

// Only what is different is written: what the browser is not told, it need not draw.
function write(element, text) {
  const node = element.firstChild;
  if (!node) element.append(text);
  else if (node.data !== text) node.data = text;
}

function put(element, name, value) {
  if (element.getAttribute(name) !== String(value)) element.setAttribute(name, value);
}

const GLIDES = { duration: 300, easing: "cubic-bezier(.2, .7, .2, 1)" };
// The same in six steps: where answers come fast something always moves, and a step costs the same as a frame.
const STEPS = { duration: 240, easing: "linear(0 0% 17%, .45 17% 33%, .7 33% 50%, .86 50% 67%, .95 67% 83%, 1 83% 100%)" };
const LEAVES = [{ opacity: 0.9, transform: "none" }, { opacity: 0, transform: "translateX(24px)" }];
const ENTERS = [{ opacity: 0, transform: "translateX(-14px)" }, { opacity: 1, transform: "none" }];
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

// As many columns as fit, but none that would stay nearly empty.
function columns() {
  const count = view.cards.length, fit = Math.max(1, Math.floor(($("cards").clientWidth - 28 + 18) / (400 + 18)));
  $("cards").style.setProperty("--columns", Math.min(count || 1, Math.ceil(count / Math.ceil(count / fit)) || 1));
}

// Drawing all, once per frame -----------------------------------------------------------------------

// Nobody reads more than a few rankings a second; those in between are in the charts. Where a
// picture takes long, the next one waits longer, so that the page never takes all of a processor.
let waiting = false, drawn = 0, cost = 0, charts = 0;
const painted = new MessageChannel(); // its message comes when the frame is done
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

// Time travel ---------------------------------------------------------------------------------------

function timeline() {
  // All ends there are, of the kind that most cards have: times, or counts of rows.
  const kinds = { number: new Map(), string: new Map() };
  for (const card of view.cards) for (const answer of card.visible()) kinds[typeof answer.end].set(answer.order, answer.end);
  const chosen = kinds.string.size >= kinds.number.size ? kinds.string : kinds.number;
  return [...chosen].sort(([a], [b]) => a - b).map(([, end]) => end);
}

// The list of all ends is long. While the newest answers are shown, it may be some moments old.
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
  put(slider, "aria-valuetext", past ? `the past, ${clock(ends[at])}` : "now");
  write($("pause"), past ? "Go on" : "Pause");
  const ago = ends.length - 1 - at;
  write($("when"), past ? `Showing the past: ${clock(ends[at], true)}${ago ? `, ${whole.format(ago)} window${ago > 1 ? "s" : ""} ago` : ""}` : `Showing now · ${kept(ends.length, view.cards.every((card) => card.all))}`);
  liveSign();
}

function liveSign() {
  const sign = $("live"), past = view.end !== null;
  sign.hidden = false;
  put(sign, "class", `live ${!view.connected ? "lost" : past ? "past" : ""}`);
  write(sign, !view.connected ? "reconnecting" : past ? "the past" : "live");
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
  else if (ends.length) { go(ends[ends.length - 1]); loadAll(); }
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
  card.all ||= last >= view.board.history || answers.length < last; // else older ones are loaded when somebody goes back
}

// Status ----------------------------------------------------------------------------------------------

function ago(seconds) {
  if (seconds < 0) return `${ago(-seconds)} ahead`;
  if (seconds < 10) return `${plainly.format(Number(seconds.toFixed(1)))} s`;
  const [size, unit] = [[86400, "days"], [3600, "hours"], [60, "minutes"], [1, "s"]].find(([each]) => seconds >= 2 * each) || [1, "s"];
  return `${whole.format(seconds / size)} ${unit}`;
}

function tellStatus() {
  const status = view.status;
  if (!status) return;
  const parts = [
    [number(Math.round(status.rows_per_second)), "rows/s"],
    [number(status.rows), "rows"],
    ...(status.watermark === null ? [] : [[clock(status.watermark, false, false), "reached"]]),
    ...(status.behind === null ? [] : [[ago(status.behind), status.behind < 0 ? "of the clock" : "behind the clock"]]),
    [number(status.late), "late"], [number(status.bad), "bad"], [bytes(status.state_bytes), "state"],
    [status.engine, "engine"], [number(status.subscribers), status.subscribers === 1 ? "viewer" : "viewers"],
  ];
  const line = $("status");
  if (line.children.length !== parts.length) line.replaceChildren(...parts.map(() => make("span", {}, make("b"), "")));
  parts.forEach(([value, what], i) => {
    write(line.children[i].firstChild, value);
    if (line.children[i].lastChild.data !== ` ${what}`) line.children[i].lastChild.data = ` ${what}`;
  });
  // Without a connection nothing else is known, so what was wrong before is not repeated.
  const wrong = view.connected ? status.trouble : [`the connection is lost since ${clock(new Date(view.heard).toISOString(), false, false)}; trying again`];
  write($("trouble"), wrong.map((each) => each[0].toUpperCase() + each.slice(1)).join(" · "));
  $("trouble").hidden = !wrong.length;
  line.classList.toggle("old", !view.connected);
}

let lastSaid = 0, unsaid = 0;
function announce(card, answer) {
  // At most every ten seconds, so that a screen reader is not flooded; what came in between, the newest of it, then.
  if (view.end !== null || document.hidden || !card.query.ranked) return;
  const leader = card.mine(answer.rows)[0];
  const moved = card.mine(answer.changes).find((row) => row.to_rank === 1);
  if (!leader || !moved) return;
  const text = `${card.query.name}: ${card.keyed([leader])[0].id} is now first.`;
  clearTimeout(unsaid);
  unsaid = setTimeout(() => { lastSaid = Date.now(); $("said").textContent = text; }, Math.max(0, lastSaid + 10000 - Date.now()));
}

// Start -----------------------------------------------------------------------------------------------

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
    clocks = {};
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
    if (reply.ok) { $("login").close(); start(); } else $("login-problem").textContent = "This is not the token.";
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
  for (const query of view.board.queries) {
    const card = new Card(query);
    view.cards.push(card);
    $("cards").append(card.element);
  }
  columns();
  new ResizeObserver(columns).observe($("cards"));
  view.lit = view.pinned;
  view.whole = view.end !== null;
  listen();
}

controls();
start();
