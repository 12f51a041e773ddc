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
