"""Pages for a browser: values in, one HTML file out. Sole user of jinja2. Reads no store."""
