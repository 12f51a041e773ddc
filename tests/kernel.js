async ([source, state, binary]) => {
  const bytes = (text) => {
    const all = Uint8Array.from(atob("AAAA" + text), (letter) => letter.charCodeAt(0));
    return new DataView(all.buffer, 3); // as a kernel's bytes come: at any offset
  };
  const heard = {};
  const tell = (name, ...what) => { for (const react of [...(heard[name] ?? [])]) react(...what); };
  const unpacked = (changes) => Object.fromEntries(Object.entries(changes)
    .map(([name, value]) => [name, binary.includes(name) ? bytes(value) : value]));
  state = unpacked(state);
  window.sent = [];
  window.heard = heard;
  window.model = { get: (name) => state[name], save_changes() {}, send: (message) => void sent.push(message),
    set(name, value) { if (state[name] !== value) { state[name] = value; tell("change:" + name); } },
    on: (event, react) => (heard[event] ??= []).push(react),
    off: (event, react) => { heard[event] = heard[event].filter((other) => other !== react); } };
  window.put = (changes) => { // the kernel's state arrives whole before its changes are told
    const names = Object.keys(changes).filter((name) => state[name] !== changes[name]);
    Object.assign(state, unpacked(changes));
    for (const name of names) tell("change:" + name);
  };
  window.row = (message, text) => tell("msg:custom", message, [bytes(text)]);
  const url = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
  const el = document.body.appendChild(document.createElement("div"));
  window.letGo = (await import(url)).default.render({ model, el });
}
