// Builds the page as one file, into the crate that embeds it.
import { defineConfig } from "vite";
import { viteSingleFile } from "vite-plugin-singlefile";

export default defineConfig({
  plugins: [viteSingleFile({ removeViteModuleLoader: true })],
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  build: {
    target: "es2022",
    outDir: process.env.PAGE_FOLDER ?? "dist",
    emptyOutDir: true,
    modulePreload: false,
  },
});
