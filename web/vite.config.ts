import { fileURLToPath } from "node:url";
import { defineConfig } from "vite";

/** The page puts each script into an element of its own, so each is built alone, as a classic one. */
export default defineConfig(({ mode }) => ({
  root: fileURLToPath(new URL(".", import.meta.url)),
  define: { "process.env.NODE_ENV": '"production"' },
  build: {
    outDir: "../harness/plugins/report/dist",
    emptyOutDir: false,
    target: "es2023",
    chunkSizeWarningLimit: 2_000,
    reportCompressedSize: false,
    cssCodeSplit: false,
    license: { fileName: `${mode}.licenses.md` },
    modulePreload: false,
    rolldownOptions: {
      input: mode === "charts" ? "src/charts.ts" : "src/app.tsx",
      output: { format: "iife", entryFileNames: `${mode}.js`, assetFileNames: `${mode}[extname]` },
    },
  },
}));
