import { defineConfig } from 'vite';

/** Four pages, one build: `dist/web/{index,event,order,organiser}.html`, everything else under `/assets/` by content hash. */
export default defineConfig({
  root: 'web',
  base: '/',
  publicDir: false,
  oxc: { jsx: { runtime: 'automatic', importSource: 'preact' } },
  build: {
    outDir: '../dist/web',
    emptyOutDir: true,
    target: 'es2022',
    // Nothing is inlined: the pages' content security policy allows neither inline scripts nor data: scripts.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    rolldownOptions: {
      input: {
        index: 'web/index.html',
        event: 'web/event.html',
        order: 'web/order.html',
        organiser: 'web/organiser.html',
      },
    },
  },
});
