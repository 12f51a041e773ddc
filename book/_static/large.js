/* A figure opens large over the page, as wide as it was drawn or wider; Escape, a touch or the button closes it. */
document.addEventListener("click", (event) => {
  const figure = event.target.closest("a.themed");
  if (!figure || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  const dialog = document.createElement("dialog");
  dialog.className = "large";
  dialog.setAttribute("aria-label", figure.closest("figure")?.querySelector("figcaption")?.innerText.replace("#", "") ?? "Figure");
  const close = document.createElement("button");
  close.type = "button";
  close.textContent = "Close";
  dialog.append(close, ...[...figure.children].map((picture) => picture.cloneNode()));
  dialog.addEventListener("click", () => dialog.close());
  dialog.addEventListener("close", () => { dialog.remove(); figure.focus(); });
  document.body.append(dialog);
  dialog.showModal();
});
