# Made from the module of the same name in _async by `npm run generate`; do not edit.
"""The asynchronous client; the synchronous one is made from it."""
