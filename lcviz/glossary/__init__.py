"""The Glossary page, in page.py; its words are in lcviz/ui/glossary.py, which all pages link to."""
