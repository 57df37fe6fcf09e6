// The field for a search; `/` leads to it.

import type { ComponentChildren } from "preact";
import { useApp } from "../app";

export function Search({ children }: { children?: ComponentChildren }) {
  const { state, set } = useApp();
  return (
    <SearchField value={state.search} onInput={(search) => set({ search })}>
      {children}
    </SearchField>
  );
}

export function SearchField({ value, onInput, children }: { value: string; onInput: (text: string) => void; children?: ComponentChildren }) {
  return (
    <div class="search">
      <svg width="16" height="16" viewBox="0 0 16 16" aria-hidden="true">
        <circle cx="7" cy="7" r="4.5" fill="none" stroke="currentColor" stroke-width="1.4" />
        <path d="M10.5 10.5 14 14" stroke="currentColor" stroke-width="1.4" />
      </svg>
      <input
        id="search"
        type="search"
        placeholder="Function, file or module"
        aria-label="Search for a function, file or module"
        value={value}
        onInput={(event) => onInput(event.currentTarget.value)}
      />
      <span class="quiet" aria-live="polite">
        {children}
      </span>
      <kbd>/</kbd>
    </div>
  );
}
