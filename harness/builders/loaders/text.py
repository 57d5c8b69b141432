"""Plain text: a folder of files, or one file; packed with gzip or not."""

from harness.builders.loaders._files import FileLoader

plugin = FileLoader
