"""glossary"""
