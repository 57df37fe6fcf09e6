// Copying text, and saying whether it could be.

export function copyText(text: string, say: (text: string) => void): void {
  void navigator.clipboard?.writeText(text).then(
    () => say("Copied the stack"),
    () => say("The browser did not allow copying"),
  );
}
