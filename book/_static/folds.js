/* A link to code opens the fold that it is in. */
const unfold = () => {
  const target = document.getElementById(location.hash.slice(1)); // an explorer's state is the id of nothing
  for (let fold = target && target.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
  if (target && target.closest("details")) target.scrollIntoView();
};
addEventListener("hashchange", unfold);
document.addEventListener("DOMContentLoaded", unfold);

/* One switch per chapter: all of its folded code at once. Tables in folds of their own stay as they are. */
document.addEventListener("DOMContentLoaded", () => {
  const folds = document.querySelectorAll("details.hide.above-input:not(:has(.cell_output))");
  const bar = document.querySelector(".article-header-buttons");
  if (!bar || folds.length === 0) return;
  const all = document.createElement("button");
  all.type = "button";
  all.className = "all-code";
  const say = (open) => {
    all.setAttribute("aria-pressed", String(open));
    all.textContent = open ? "Hide all code" : "Show all code";
  };
  say(false);
  all.addEventListener("click", () => {
    const open = all.getAttribute("aria-pressed") === "false";
    folds.forEach((fold) => { fold.open = open; });
    say(open);
  });
  bar.prepend(all);
});
