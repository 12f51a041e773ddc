(() => {
  const state = STATE;
  const addressed = ADDRESSED;
  for (const [name, value] of Object.entries(state)) {
    if (value && typeof value.base64 === "string")
      state[name] = Uint8Array.from(atob(value.base64), (letter) => letter.charCodeAt(0));
  }
  const el = document.querySelector('[data-attnlib="KEY"]:empty');
  if (!el) return;
  // What the reader chose stands in the page's address, as #explorer=2&layer=1: who is sent it sees the same.
  const own = String([...document.querySelectorAll("[data-attnlib]")].indexOf(el)), chosen = new Set();
  let waiting;
  const tell = () => {
    const told = new URLSearchParams({ explorer: own });
    for (const name of addressed) if (chosen.has(name)) told.set(name, state[name]);
    try { history.replaceState(null, "", "#" + told); } catch { /* a frame may have no address of its own */ }
  };
  const listeners = {};
  const model = {
    get: (name) => state[name],
    set(name, value) {
      if (state[name] === value) return;
      state[name] = value;
      for (const listener of [...(listeners["change:" + name] ?? [])]) listener();
      if (!addressed.includes(name)) return;
      chosen.add(name);
      clearTimeout(waiting);
      waiting = setTimeout(tell, 300); // browsers refuse to be told at every move of a slider
    },
    on: (event, listener) => void (listeners[event] ??= []).push(listener),
    off: (event, listener) =>
      void (listeners[event] = (listeners[event] ?? []).filter((other) => listener && other !== listener)),
    save_changes() {},
    send() {},
  };
  const read = () => {
    const told = new URLSearchParams(location.hash.slice(1));
    if (told.get("explorer") !== own) return false;
    for (const name of addressed) {
      const older = name === "item" ? told.get("example") ?? told.get("document") : null; // its names
      const value = told.get(name) ?? older;
      if (value !== null && typeof state[name] === "string") model.set(name, value);
      else if (/^(-1|[0-9]{1,6})$/.test(value)) model.set(name, Number(value));
    }
    return true;
  };
  const sent = read();
  render({ model, el });
  el.nextElementSibling.remove(); // the line for pages whose scripts do not run
  if (sent) addEventListener("load", () => el.scrollIntoView({ block: "center" }));
  addEventListener("hashchange", read);
})();
