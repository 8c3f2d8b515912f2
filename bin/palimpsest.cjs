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
// A checkout has the sources; the package has what was built of them.
var sources = path.join(__dirname, "..", "src", "server", "main.ts");
var built = path.join(__dirname, "..", "dist", "src", "server", "main.js");
import(require("url").pathToFileURL(fs.existsSync(sources) ? sources : built).href).catch(function (error) {
  console.error(error);
  process.exit(1);
});
