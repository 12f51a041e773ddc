/* The theme follows the reader's place in the list of a page's sections, but looks for that list by a name that it does
   not have, and takes every link of the page for one to a section: addresses of explorers are none. */
addEventListener("DOMContentLoaded", () => {
  if (document.getElementById("pst-page-toc-nav")) document.body.dataset.bsTarget = "#pst-page-toc-nav";
  else delete document.body.dataset.bsSpy;
});

/* What is wider than its column says so: its cut edge fades, and keys can move it. What fits is no stop for the tab key. */
{
  const wide = ".bd-article :is(.pst-scrollable-table-container, .cell_output, .output, div.math > span, pre)";
  const look = (box) => {
    const left = Math.abs(box.scrollLeft), right = box.scrollWidth - box.clientWidth - left;
    box.classList.toggle("more-left", left > 1);
    box.classList.toggle("more-right", right > 1);
    if (left > 1 || right > 1) box.tabIndex = 0;
    else box.removeAttribute("tabindex");
  };
  addEventListener("DOMContentLoaded", () => {
    const sizes = new ResizeObserver((seen) => seen.forEach(({ target }) => look(target)));
    for (const box of document.querySelectorAll(wide)) {
      sizes.observe(box);
      box.addEventListener("scroll", () => look(box), { passive: true });
    }
  });
}
