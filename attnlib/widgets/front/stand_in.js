(() => {
  const state = STATE;
  const { addressed } = state; // the kinds of what the address holds, by name
  const adler32 = (bytes) => { // RFC 1950
    let a = 1, b = 0;
    for (const byte of bytes) b = (b + (a = (a + byte) % 65521)) % 65521;
    return b * 65536 + a;
  };
  let damaged = false;
  for (const [name, value] of Object.entries(state)) {
    if (!value || typeof value.base64 !== "string") continue;
    try { state[name] = Uint8Array.from(atob(value.base64), (letter) => letter.charCodeAt(0)); } catch { damaged = true; }
    damaged ||= adler32(state[name]) !== value.adler32;
  }
  const el = document.querySelector('[data-attnlib="KEY"]:empty');
  if (!el) return;
  if (damaged) { // another picture would be drawn
    el.nextElementSibling.remove();
    el.setAttribute("role", "alert");
    el.textContent = "What is to be drawn here was changed after this page was made, and is not shown: take the page from where it came from, or make it again.";
    return;
  }
  // What the reader chose stands in the page's address, as #explorer=2&layer=1&swaps=L0H1~off: who is sent it sees
  // the same. What it may not be is passed over.
  const fromAddress = {
    Int: (text) => (/^(-1|[0-9]{1,6})$/.test(text) ? Number(text) : undefined),
    Float: (text) => (/^[01](\.[0-9]{1,4})?$/.test(text) ? Math.min(Number(text), 1) : undefined), // a share
    Bool: (text) => ({ true: true, false: false })[text],
    Unicode: (text) => text,
    Enum: (text) => text,
    List: (text) => text.split("~").filter(Boolean),
    Dict: (text) => Object.fromEntries([...text.matchAll(/([^.~]+)~([^.~]+)/g)].map(([, name, value]) => [name, value])),
  };
  const written = { List: (value) => value.join("~"), Dict: (value) => Object.entries(value).map((entry) => entry.join("~")).join(".") };
  const toAddress = (name) => (written[addressed[name]] ?? String)(state[name]);
  const own = String([...document.querySelectorAll("[data-attnlib]")].indexOf(el)), chosen = new Set();
  let waiting;
  const tell = () => {
    const told = new URLSearchParams({ explorer: own });
    for (const name of Object.keys(addressed)) if (chosen.has(name)) told.set(name, toAddress(name));
    try { history.replaceState(null, "", "#" + told); } catch { /* a frame may have no address of its own */ }
  };
  const listeners = {};
  const model = {
    get: (name) => state[name],
    set(name, value) {
      if (state[name] === value) return;
      state[name] = value;
      for (const listener of [...(listeners["change:" + name] ?? [])]) listener();
      if (!(name in addressed)) return;
      chosen.add(name);
      clearTimeout(waiting);
      waiting = setTimeout(tell, 300); // browsers refuse to be told at every move of a slider
    },
    on: (event, listener) => void (listeners[event] ??= []).push(listener),
    off: (event, listener) =>
      void (listeners[event] = (listeners[event] ?? []).filter((other) => listener && other !== listener)),
    save_changes() {},
    send() {},
    link() { tell(); return location.href; },
  };
  const read = (hash) => {
    const told = new URLSearchParams(hash.slice(1));
    if (told.get("explorer") !== own) return false;
    for (const [name, kind] of Object.entries(addressed)) {
      const older = name === "item" ? told.get("example") ?? told.get("document") : null; // its names
      const text = told.get(name) ?? older, value = text === null ? undefined : fromAddress[kind](text);
      if (value !== undefined) model.set(name, value);
    }
    return true;
  };
  const reveal = () => { // what is taller than the window is seen from its upper edge
    for (let fold = el.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
    el.style.scrollMarginTop = "5rem"; // of a page's own bar
    el.scrollIntoView({ block: el.offsetHeight < innerHeight - 100 ? "center" : "start" });
  };
  const sent = read(location.hash);
  render({ model, el });
  el.nextElementSibling.remove(); // the line for pages whose scripts do not run
  if (sent) addEventListener("load", reveal);
  // By now `tell` may have written an older choice over the address that was typed: the event has what was typed.
  addEventListener("hashchange", (event) => { if (read(new URL(event.newURL).hash)) reveal(); });
  addEventListener("click", (event) => { // a link of the text to what the address has already
    const link = event.target.closest?.('a[href^="#explorer="]');
    if (link?.hash === location.hash && read(link.hash)) reveal();
  });
})();
