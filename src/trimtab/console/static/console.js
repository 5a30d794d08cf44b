// Trimtab console: the event stream, keys, dialogs, theme and times. Pages work without it; nothing here decides anything.
(() => {
  "use strict";
  const $ = (q, at = document) => at.querySelector(q);
  const $$ = (q, at = document) => [...at.querySelectorAll(q)];
  const root = document.documentElement, body = document.body;
  const store = {
    get: key => { try { return localStorage.getItem(key); } catch { return null; } },
    set: (key, value) => { try { localStorage.setItem(key, value); } catch { /* private mode */ } },
  };

  // theme: that of the system, until somebody chooses; ?theme= wins
  const forced = new URL(location.href).searchParams.get("theme") || store.get("theme");
  if (forced === "light" || forced === "dark") root.dataset.theme = forced;
  const isDark = () => root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  $("#theme")?.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    store.set("theme", root.dataset.theme);
  });

  // time: the server says when it wrote the page; the browser only adds what has passed since
  let born = Date.parse(body.dataset.now || "") || Date.now(), loaded = performance.now();
  const now = () => born + performance.now() - loaded;
  const two = n => String(n).padStart(2, "0");
  const span = s => s < 60 ? `${s} s` : s < 600 ? `${s / 60 | 0} min ${two(s % 60)} s` : s < 3600 ? `${s / 60 | 0} min` : s < 172800 ? `${s / 3600 | 0} h ${two((s % 3600) / 60 | 0)} min` : `${s / 86400 | 0} days`;
  const tick = () => {
    if (document.hidden) return;
    const clock = $("#clock");
    if (clock) clock.textContent = new Date(now()).toISOString().slice(11, 19) + " UTC";
    for (const t of $$("time[data-since]")) t.textContent = span(Math.max(0, (now() - Date.parse(t.dataset.since)) / 1000 | 0));
    for (const t of $$("time[data-until]")) {
      const left = (Date.parse(t.dataset.until) - now()) / 1000 | 0;
      t.textContent = left > 0 ? "in " + span(left) : "now";
    }
  };
  if (body.dataset.page) { tick(); setInterval(tick, 1000); }

  // parts of the page are replaced by what the server rendered
  const policy = globalThis.trustedTypes?.createPolicy("trimtab", { createHTML: text => text });
  const parse = html => {
    const t = document.createElement("template");
    t.innerHTML = policy ? policy.createHTML(html) : html;
    for (const field of $$("input[name=csrf]", t.content)) field.setAttribute("value", $("form.who input[name=csrf]")?.value || "");
    return t.content.firstElementChild;
  };
  const focusKey = e => e && e !== body && (e.id ? `#${CSS.escape(e.id)}` : e.getAttribute("href") ? `a[href="${CSS.escape(e.getAttribute("href"))}"]` : "");
  const replace = (old, fresh) => {
    if (!old || !fresh || old.isEqualNode(fresh)) return;
    const had = old.contains(document.activeElement) ? focusKey(document.activeElement) : "";
    for (const name of ["aria-selected"]) if (old.hasAttribute(name)) fresh.setAttribute(name, old.getAttribute(name));
    const scrolled = old.scrollLeft;
    old.replaceWith(fresh);
    setUp(fresh);
    if (scrolled) fresh.scrollLeft = scrolled;
    if (had) $(had, fresh)?.focus({ preventScroll: true });
  };
  const shown = new WeakMap();
  const applyRows = patch => {
    const table = document.getElementById(patch.rows);
    if (!table) return;
    for (const [id, html] of Object.entries(patch.html)) {
      const old = document.getElementById(id), fresh = parse(html);
      if (!fresh || (old && (shown.get(old) === html || old.isEqualNode(fresh)))) continue;
      fresh.classList.add("fresh");
      shown.set(fresh, html);
      if (old) replace(old, fresh); else table.append(fresh);
    }
    if (!patch.order) return;
    const wanted = new Set(patch.order);
    for (const row of [...table.children]) if (row.id && !wanted.has(row.id)) row.remove();
    let at = table.firstElementChild;
    for (const id of patch.order) {
      const row = document.getElementById(id);
      if (!row) continue;
      if (row === at) at = at.nextElementSibling; else table.insertBefore(row, at);
    }
  };
  let announced = 0;
  const announce = text => {
    if (performance.now() - announced < 10000) return;
    announced = performance.now();
    const box = $("#announce");
    if (box) box.textContent = text;
  };
  const apply = message => {
    for (const patch of message.patches) {
      if (patch.rows) applyRows(patch);
      else if (!document.getElementById(patch.id)?.querySelector("dialog[open]")) replace(document.getElementById(patch.id), parse(patch.html));
    }
    body.dataset.revision = message.revision;
    const asOf = $("#as-of");
    if (asOf) asOf.textContent = new Date(now()).toISOString().slice(11, 19);
    tick();
    if (message.patches.some(p => p.id === "pulse")) announce($("#pulse")?.textContent.replace(/\s+/g, " ").trim() || "");
  };

  // the stream: one per page; it goes on from the revision that the page shows
  const mark = (state, text) => { const l = $("#live"); if (l) { l.dataset.state = state; l.textContent = text; } };
  let source = null, retry = 1000, hold = false, waiting = [], lost = 0, hiddenSince = 0;
  const connect = () => {
    if (source || lost < 0 || !body.dataset.revision) return;
    const here = location.pathname + location.search;
    source = new EventSource(`/console/events?page=${encodeURIComponent(here)}&rev=${encodeURIComponent(body.dataset.revision)}`);
    const current = source;
    source.addEventListener("open", () => { retry = 1000; lost = 0; body.classList.remove("stale"); mark("", hold ? "held" : "live"); });
    source.addEventListener("patch", e => { const m = JSON.parse(e.data); if (hold) waiting.push(m); else apply(m); });
    source.addEventListener("reload", () => reload());
    source.addEventListener("signed-out", () => { close(); lost = -1; body.classList.add("stale"); mark("off", "signed out: load the page to sign in"); });
    source.addEventListener("error", () => {
      if (current !== source) return;
      close();
      const since = lost || (lost = now());
      mark("off", `offline since ${new Date(since).toISOString().slice(11, 19)}`);
      body.classList.toggle("stale", now() - since > 10000);
      if (retry > 1500) fetch("/console/search", { method: "HEAD" }).then(answer => { if (answer.status === 401) { close(); mark("off", "signed out: load the page to sign in"); body.classList.add("stale"); lost = -1; } }, () => {});
      if (lost < 0) return;
      setTimeout(connect, retry * (0.75 + Math.random() / 2));
      retry = Math.min(10000, retry * 1.6);
    });
  };
  const close = () => { source?.close(); source = null; };
  const reload = () => { if ($("dialog[open]") || /^(INPUT|SELECT|TEXTAREA)$/.test(document.activeElement?.tagName || "")) { mark("wait", "changed: load again"); return; } location.reload(); };
  if (body.dataset.page) {
    connect();
    document.addEventListener("visibilitychange", () => {
      if (document.hidden) { hiddenSince = performance.now(); setTimeout(() => { if (document.hidden && performance.now() - hiddenSince >= 59000) { close(); mark("wait", "paused"); } }, 60000); }
      else { connect(); tick(); }
    });
    addEventListener("pagehide", close);
    addEventListener("pageshow", e => { if (e.persisted) connect(); });
  }
  $("#hold")?.addEventListener("click", e => {
    hold = !hold;
    e.currentTarget.setAttribute("aria-pressed", String(hold));
    mark(hold ? "wait" : "", hold ? "held" : "live");
    if (!hold) { waiting.forEach(apply); waiting = []; }
  });

  // rows: j, k, Enter; a click anywhere on a row that leads somewhere
  const rows = () => $$("table[data-rows] tbody tr:not(.group)");
  const move = step => {
    const all = rows(); if (!all.length) return;
    const was = all.findIndex(r => r.getAttribute("aria-selected") === "true");
    all[was]?.removeAttribute("aria-selected");
    const at = Math.max(0, Math.min(all.length - 1, was + step));
    all[at].setAttribute("aria-selected", "true");
    all[at].scrollIntoView({ block: "nearest" });
  };
  let opener = null;
  const open = dialog => { if (dialog && !dialog.open) { dialog.showModal(); (dialog.querySelector("[data-safe]") || dialog.querySelector("input:not([type=hidden]),button"))?.focus(); } };
  const say = text => { const l = $("#live"); if (!l) return; const was = l.textContent, state = l.dataset.state; l.textContent = text.slice(0, 44); setTimeout(() => { l.textContent = was; l.dataset.state = state; }, 1600); };
  document.addEventListener("click", e => {
    const t = e.target; if (!(t instanceof Element)) return;
    const o = t.closest("[data-dialog]"); if (o) { opener = o; open(document.getElementById(o.dataset.dialog)); return; }
    const c = t.closest("[data-close]"); if (c) { c.closest("dialog")?.close(); return; }
    const copy = t.closest("[data-copy]"); if (copy) { navigator.clipboard?.writeText(copy.dataset.copy); say("copied: " + copy.dataset.copy); return; }
    const source_ = t.closest("[data-copy-from]"); if (source_) { navigator.clipboard?.writeText(document.getElementById(source_.dataset.copyFrom)?.textContent || ""); say("copied"); return; }
    if (t.closest("[data-print]")) { print(); return; }
    if (t.closest("[data-back]")) { history.back(); return; }
    const row = t.closest("tr[data-href]"); if (row && !t.closest("a,button,input,label")) location.href = row.dataset.href;
  });
  if (location.hash.length > 1) { const d = document.getElementById(location.hash.slice(1)); if (d instanceof HTMLDialogElement) open(d); }

  // what elements of this part do by themselves; a form that asks for a typed name can be sent when the name is right
  const setUp = at => {
    for (const d of $$("dialog", at)) d.addEventListener("close", () => { opener?.focus?.(); opener = null; });
    for (const input of $$("input[data-confirm]", at)) {
      const button = input.form.querySelector("button[data-danger]");
      const check = () => { button.disabled = input.value !== input.dataset.confirm; };
      input.addEventListener("input", check); check();
    }
    for (const form of $$("form[data-once]", at)) form.addEventListener("submit", () => { for (const b of $$("button", form)) b.disabled = true; });
    for (const s of $$("[data-autosubmit]", at)) s.addEventListener("change", () => s.form.requestSubmit());
  };
  setUp(document);

  // a page that takes long to compute is shown first and fetched again; Cancel leaves it as it is
  const fill = async () => {
    const box = $("[data-fill]"); if (!box) return;
    const status = $("[role=status]", box), button = $("[data-cancel]", box), stop = new AbortController();
    const fail = text => { box.removeAttribute("aria-busy"); status.textContent = text; button.textContent = "Try again"; button.hidden = false; button.onclick = () => location.reload(); };
    button.hidden = false;
    button.onclick = () => stop.abort();
    try {
      const answer = await fetch(location.href, { headers: { "x-trimtab-fetch": "1", accept: "text/html" }, signal: stop.signal });
      const t = document.createElement("template"), html = await answer.text();
      t.innerHTML = policy ? policy.createHTML(html) : html;
      const main = $("#main", t.content);
      if (!answer.ok || !main) { fail($("[role=alert]", t.content)?.textContent || "The server does not answer."); return; }
      for (const id of ["main", "dialogs"]) document.getElementById(id)?.replaceWith($("#" + id, t.content));
      setUp($("#main")); setUp($("#dialogs")); tick();
    } catch (fault) { fail(fault.name === "AbortError" ? "Cancelled." : "The server does not answer."); }
  };
  fill();

  // keys
  const off = $("#keys-off");
  if (off) { off.checked = store.get("keys") === "off"; off.addEventListener("change", () => store.set("keys", off.checked ? "off" : "on")); }
  let g = 0;
  document.addEventListener("keydown", e => {
    if (e.ctrlKey || e.metaKey || e.altKey || $("dialog[open]")) return;
    const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(e.target.tagName);
    if (e.key === "Escape") { if (typing) e.target.blur(); else if (location.search) location.href = location.pathname; return; }
    if (typing || store.get("keys") === "off") return;
    if (Date.now() - g < 900) { g = 0; const a = $(`.nav a[data-key="${CSS.escape(e.key)}"]`); if (a) { e.preventDefault(); location.href = a.href; } return; }
    const act = {
      "/": () => ($("#rowfilter") || $("#find"))?.focus(), "?": () => open($("#keys")), g: () => { g = Date.now(); },
      j: () => move(1), k: () => move(-1), e: () => { if ($("#why")) location.hash = "why"; },
      x: () => { location.href = "/console/workloads?state=none,stuck"; }, p: () => { location.href = "/console/incident"; },
      y: () => $("[data-copy]")?.click(), ".": () => $(".head .actions .btn")?.focus(),
      Enter: () => { const r = $("tr[aria-selected=true]"); if (r?.dataset.href) location.href = r.dataset.href; },
    }[e.key];
    if (act && !(e.key === "Enter" && e.target.closest("a,button"))) { e.preventDefault(); act(); }
  });

  // a cluster under the pointer: only its flows stay
  const hot = name => {
    for (const s of $$("svg.pic")) {
      s.classList.toggle("dim", !!name && !!$("[data-c]", s));
      for (const p of $$("[data-c]", s)) p.classList.toggle("hot", !!name && p.dataset.c.split(" ").includes(name));
    }
  };
  let last = "";
  for (const kind of ["pointerover", "focusin"]) document.addEventListener(kind, e => {
    const c = e.target instanceof Element ? e.target.closest("[data-cl]") : null, name = c ? c.dataset.cl : "";
    if (name !== last) { last = name; hot(name); }
  });
})();
