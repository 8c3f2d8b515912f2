#!/usr/bin/env node
// Starts the command, or says in one line which Node it needs: this file is written so that every Node can read it, and
// loads nothing before it has looked.
"use strict";

var needed = 24;
if (parseInt(process.versions.node, 10) < needed) {
  console.error(
    "palimpsest needs Node " +
      needed +
      " or later, and this is Node " +
      process.versions.node +
      ". In a checkout, npm ci brings one: npm start, or npm run -s palimpsest -- <command>.",
  );
  process.exit(1);
}

var fs = require("fs");
var path = require("path");
// What V8 has compiled is kept for the next start, of threads and processes too: in a folder of the user's own and never
// in one that all share, as what lies there is run. Without one, or where it cannot be written, a start takes a little
// longer. Where the variable is set, Node keeps it by itself.
var caches = process.env.XDG_CACHE_HOME || (process.env.HOME && path.join(process.env.HOME, ".cache"));
if (!process.env.NODE_COMPILE_CACHE && caches && path.isAbsolute(caches)) {
  process.env.NODE_COMPILE_CACHE = path.join(caches, "palimpsest");
  require("module").enableCompileCache(process.env.NODE_COMPILE_CACHE);
}
// A checkout has the sources; the package has what was built of them.
var sources = path.join(__dirname, "..", "src", "server", "main.ts");
var built = path.join(__dirname, "..", "dist", "lib", "main.js");
var isCheckout = fs.existsSync(sources);
import(require("url").pathToFileURL(isCheckout ? sources : built).href).catch(function (error) {
  // The sources want more packages than what was built of them: npm leaves them out where NODE_ENV is production.
  if (isCheckout && error && error.code === "ERR_MODULE_NOT_FOUND" && /package '/.test(error.message)) {
    console.error(
      "palimpsest: " + error.message.split(" imported from ")[0] + ". In a checkout, npm ci --include=dev brings it.",
    );
  } else {
    console.error(error);
  }
  process.exit(1);
});
