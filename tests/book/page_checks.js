// What is asked of a page of the built book, beside what axe asks. Explorers have tests of their own.
{
  const ofBook = (selector) => [...document.querySelectorAll(selector)].filter((each) => !each.closest(".attnx"));
  const named = (wrong) => (element) => `${wrong}: #${element.parentElement.closest("[id]").id}: ${element.outerHTML.slice(0, 120)}`;
  const unfold = () => ofBook("article details").forEach((fold) => { fold.open = true; });
  const scrolling = (element) => ["auto", "scroll"].includes(getComputedStyle(element).overflowX);

  // What axe finds at least moderate. It would fetch style sheets, too, which a page on disk may not do: no rule that is on
  // reads them. Contrast takes most of its time, and depends on how a text looks: of every look on a page, three texts are
  // asked. In the dark, what a page shows differs in its colours and pictures; where it is narrow, in its colours, in what
  // scrolls and in which parts it has: no other rules are asked again.
  async function shutOut(how) {
    const look = (element) => {
      const style = getComputedStyle(element), behind = [];
      for (let each = element; each; each = each.parentElement) {
        const { backgroundColor, backgroundImage, opacity, position } = getComputedStyle(each);
        behind.push([backgroundColor, backgroundImage, opacity, position]);
      }
      return JSON.stringify([style.color, style.fontSize, style.fontWeight, style.textShadow, behind]);
    };
    const texts = new Map(), walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
      const element = walker.currentNode.parentElement;
      if (!walker.currentNode.data.trim() || !element.getClientRects().length) continue;
      const key = look(element), same = texts.get(key) ?? new Set();
      if (same.size < 3) texts.set(key, same.add(element));
    }
    const rules = {
      light: { rules: { "color-contrast": { enabled: false } } },
      dark: { runOnly: ["image-alt", "svg-img-alt", "role-img-alt"] },
      narrow: { runOnly: ["scrollable-region-focusable", "region", "landmark-one-main", "landmark-unique"] },
    };
    const always = { resultTypes: ["violations"], preload: { assets: ["media"] } };
    const found = [await axe.run({ ...always, ...rules[how] })];
    if (texts.size) {
      const include = [...texts.values()].flatMap((same) => [...same]);
      found.push(await axe.run({ include }, { ...always, runOnly: ["color-contrast"] }));
    }
    return found.flatMap((each) => each.violations)
      .filter((each) => each.impact !== "minor")
      .map((each) => `${each.id}: ${each.nodes.length} x ${each.nodes[0].html.slice(0, 200)}`);
  }

  // Tables wider than their column.
  const tooWide = (columns) => ofBook("article table").filter((table) => {
    let column = table.parentElement;
    while (!scrolling(column) && column.tagName !== "ARTICLE") column = column.parentElement;
    return table.offsetWidth > column.clientWidth + 1 && table.rows[0].cells.length <= columns;
  }).map(named("too wide"));

  // What is touched, and is smaller than 24 pixels either way; words within a text may be (WCAG 2.2, 2.5.8).
  const tooSmall = () => ofBook("a[href], button, summary, input, select, textarea").filter((target) => {
    const { width, height } = target.getBoundingClientRect();
    if (!width || !height || (width >= 24 && height >= 24)) return false;
    if (!target.checkVisibility({ visibilityProperty: true, opacityProperty: true })) return false;
    let block = target.parentElement;
    while (getComputedStyle(block).display.startsWith("inline")) block = block.parentElement;
    return block.textContent.trim() === target.textContent.trim();
  }).map(named("too small"));

  // What is cut at its edge and does not look so, or is moved by a pointer alone.
  const cutOff = () => ofBook("article *").filter((box) => scrolling(box) && box.scrollWidth > box.clientWidth + 1)
    .filter((box) => getComputedStyle(box).maskImage === "none" || (box.tabIndex < 0 && !box.querySelector("[href]")))
    .map(named("cut off"));

  // Formulas that the tab key stops at, though there is nothing to move; that are not set; that cannot be read out.
  const wrongFormulas = () => ofBook(".math").filter((place) => {
    const stops = [...place.querySelectorAll("a:not(.headerlink), [tabindex]")].filter((each) => each.scrollWidth <= each.clientWidth);
    const set = place.querySelector(".katex-html"), read = place.querySelector("math annotation");
    return stops.length || !set || !read || place.querySelector(".katex-error");
  }).map(named("formula"));

  // Pictures that are not there, once those that would be loaded later are asked for now.
  const broken = async () => {
    const shown = [...document.images].filter((image) => image.checkVisibility());
    shown.forEach((image) => { image.loading = "eager"; });
    await Promise.all(shown.map((image) => image.decode().catch(() => {})));
    return shown.filter((image) => !image.naturalWidth).map((image) => image.src);
  };

  // Colours fade in with the theme, fonts come later.
  const settled = () => Promise.all([document.fonts.ready,
    ...document.getAnimations().map((each) => each.finished.catch(() => {})), new Promise(requestAnimationFrame)]);

  window.wrong = {
    light: async (columns) => {
      await settled();
      const found = [...await shutOut("light"), ...await broken()];
      unfold();
      return [...found, ...tooWide(columns), ...tooSmall(), ...wrongFormulas()];
    },
    dark: async () => {
      await settled();
      const found = await shutOut("dark");
      unfold();
      return [...found, ...await broken()];
    },
    narrow: async () => {
      await settled();
      const found = [...await shutOut("narrow"), ...tooSmall(), ...cutOff(), ...wrongFormulas()];
      const { scrollWidth } = document.documentElement;
      return scrollWidth > innerWidth ? [...found, `${scrollWidth} pixels wide`] : found;
    },
  };
}
