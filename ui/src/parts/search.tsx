// The field for a search; `/` leads to it.

import type { ComponentChildren } from "preact";
import { useApp } from "../app";

export function Search({ what, children }: { what?: string; children?: ComponentChildren }) {
  const { state, set } = useApp();
  return (
    <SearchField what={what} value={state.search} onInput={(search) => set({ search })}>
      {children}
    </SearchField>
  );
}

interface FieldProps {
  /** What is searched for. */
  what?: string;
  value: string;
  onInput: (text: string) => void;
  children?: ComponentChildren;
}

export function SearchField({ what = "Function, file or module", value, onInput, children }: FieldProps) {
  return (
    <div class="search">
      <svg width="16" height="16" viewBox="0 0 16 16" aria-hidden="true">
        <circle cx="7" cy="7" r="4.5" fill="none" stroke="currentColor" stroke-width="1.4" />
        <path d="M10.5 10.5 14 14" stroke="currentColor" stroke-width="1.4" />
      </svg>
      <input
        id="search"
        type="search"
        placeholder={what}
        aria-label={`Search for a ${what.toLowerCase()}`}
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
