"""How the commands of a page are run."""

from pathlib import Path

from docs.page_session import PageSession

PAGE = """<!-- port: 9080 -->
```python title="tools/show_port.py"
import time

print("listens on 9080 of 9081", flush=True)
time.sleep(600)
```
```console
$ python3 tools/show_port.py > port.txt &
$ cat port.txt
listens on ... of 9081
```
"""


def test_background_commands_end_with_the_page_and_ports_are_free_ones(tmp_path: Path) -> None:
    page, directory = tmp_path / "page.md", tmp_path / "session"
    page.write_text(PAGE)
    directory.mkdir()
    session = PageSession(page, directory, tmp_path / "no-commands")
    session.run()
    words = (directory / "port.txt").read_text().split()
    assert words[2] != "9080"
    assert 0 < int(words[2]) < 65536
    assert [process.poll() is not None for process in session._background] == [True]
