// The RASP languages of the paper: what is right, and where a program looks. Python's table of them is LANGUAGES in
// attnlib.generators.rasp.definitions; the tests hold both against each other, language by language.
//
// May be touched for: a language that Python has, too. Nothing here knows of models or of the page.

const MOST_COUNTED = 10, NOTHING_LEFT = "§", BRACKETS = ["()", "{}", "[]", "<>", "\\/", "`'", "uv", "xy"];
const counts = (s) => s.map((symbol) => s.filter((other) => other === symbol).length);
const isFirst = (s) => s.map((symbol, i) => s.indexOf(symbol) === i);

/** The places in order of the numbers that `of` gives, ties by place; and the rank of each place in that order. */
const ordered = (s, of) => [...s.keys()].sort((a, b) => of(a) - of(b) || a - b);
function ranks(s, of) {
  const places = [];
  ordered(s, of).forEach((at, place) => { places[at] = place; });
  return places;
}
const byCode = (s) => (i) => s[i].codePointAt(0);
function byFrequency(s) {
  const count = counts(s), first = isFirst(s);
  return (i) => (first[i] ? 0 : 2 * s.length) - count[i];
}

function dyck(s, pairs) {
  const open = [];
  let broken = false;
  return s.map((symbol) => {
    const pair = pairs.find((each) => each.includes(symbol));
    if (pair?.[0] === symbol) open.push(pair);
    else if (pair && open.pop() !== pair) broken = true;
    return broken ? "F" : open.length ? "P" : "T";
  });
}

// Of every language the outputs, and of each head with a known algorithm where query q looks among the keys; the
// second entry is false where it does not look at the token at the beginning.
const PROGRAMS = {
  reverse: {
    outputs: (s) => [...s].reverse(),
    heads: (s) => ({ L0H0: [() => true], L1H0: [(q, k) => k === s.length - 1 - q, false] }),
  },
  hist: { outputs: (s) => counts(s).map((count) => Math.min(count, MOST_COUNTED)), heads: (s) => ({ L0H0: [(q, k) => s[k] === s[q]] }) },
  hist2: {
    outputs(s) {
      const count = counts(s), first = isFirst(s);
      return count.map((own) => Math.min(count.filter((other, i) => first[i] && other === own).length, MOST_COUNTED));
    },
    heads(s) {
      const count = counts(s), first = isFirst(s);
      return { L0H0: [(q, k) => s[k] === s[q]], L0H1: [(q, k) => s[k] === s[q] && k < q], L1H0: [(q, k) => first[k] && count[k] === count[q]] };
    },
  },
  sort: {
    outputs: (s) => ordered(s, byCode(s)).map((i) => s[i]),
    heads(s) {
      const rank = ranks(s, byCode(s));
      return { L0H0: [(q, k) => rank[k] < rank[q]], L1H0: [(q, k) => rank[k] === q, false] };
    },
  },
  sort_by_freq: {
    outputs(s) {
      const distinct = new Set(s).size;
      return ordered(s, byFrequency(s)).map((i, place) => (place < distinct ? s[i] : NOTHING_LEFT));
    },
    heads(s) {
      const rank = ranks(s, byFrequency(s));
      return { L0H0: [(q, k) => s[k] === s[q]], L0H1: [(q, k) => s[k] === s[q] && k < q], L1H0: [(q, k) => rank[k] < rank[q]],
        L2H0: [(q, k) => rank[k] === q] };
    },
  },
  ...Object.fromEntries(BRACKETS.map((_, i) => [`dyck${i + 1}_ptf`, { outputs: (s) => dyck(s, BRACKETS.slice(0, i + 1)), heads: () => ({}) }])),
};

/** A language by its name; throws an Error that says which there are. */
export function programOf(name) {
  if (!Object.hasOwn(PROGRAMS, name)) throw new Error(`this page knows no language "${name}", only ${Object.keys(PROGRAMS).join(", ")}`);
  return PROGRAMS[name];
}
