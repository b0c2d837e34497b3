"""What is said where Apache Kafka cannot be brought or run, and that its jars are fetched once."""

from pathlib import Path

import pytest

from eunoe.schemas.errors import Refused, Unavailable
from tests.support.kafka.cluster import KafkaCluster
from tests.support.kafka.jars import fetch_jars, find_java, jars_folder


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty PATH for this test's programs, and an empty cache."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("EUNOE_KAFKA_JARS", raising=False)
    return folder


def program(folder: Path, name: str, *lines: str) -> None:
    (folder / name).write_text("\n".join(["#!/bin/bash", *lines]) + "\n")
    (folder / name).chmod(0o755)


def test_no_java_and_an_old_java_are_told(programs: Path) -> None:
    with pytest.raises(Refused, match=r"no java here.*Java 17.*install"):
        find_java()
    program(programs, "java", """echo 'openjdk version "11.0.2" 2019-01-15' >&2""")
    with pytest.raises(Refused, match=r"Java 17 or newer, .*/java is 11"):
        find_java()


@pytest.mark.parametrize("words", ['openjdk version "17.0.15" 2025-04-15', "javac 21.0.1"])
def test_a_java_that_is_new_enough_is_found(programs: Path, words: str) -> None:
    program(programs, "java", f"echo '{words}'")
    assert find_java() == str(programs / "java")


def test_no_maven_is_told(programs: Path) -> None:
    with pytest.raises(Refused, match=r"no mvn here.*install maven"):
        fetch_jars()


def test_what_maven_says_is_passed_on_and_nothing_is_left(programs: Path) -> None:
    program(programs, "mvn", "echo '[INFO] x'", "echo '[ERROR] Unknown host repo.maven.apache.org'", "exit 1")
    with pytest.raises(Unavailable, match=r"settings.xml(.|\n)*Unknown host"):
        fetch_jars()
    assert list(jars_folder().parent.iterdir()) == []


def test_jars_are_fetched_once(programs: Path) -> None:
    copies = ('for word in "$@"; do case $word in -DoutputDirectory=*) to=${word#*=};; esac; done', "/bin/mkdir $to")
    program(programs, "mvn", *copies, ": > $to/kafka_2.13-4.jar")
    folder = fetch_jars()
    assert [path.name for path in folder.iterdir()] == ["kafka_2.13-4.jar"]
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]
    (programs / "mvn").unlink()
    assert fetch_jars() == folder


def test_a_folder_that_was_named_is_not_filled(programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EUNOE_KAFKA_JARS", str(tmp_path))
    with pytest.raises(Refused, match="holds no kafka_"):
        fetch_jars()
    (tmp_path / "kafka_2.13-4.jar").touch()
    assert fetch_jars() == tmp_path


async def test_a_cluster_begins_in_a_directory_of_its_own(programs: Path, tmp_path: Path) -> None:
    (tmp_path / "kept").touch()
    with pytest.raises(Refused, match="is not empty"):
        await KafkaCluster(directory=tmp_path).start()
    with pytest.raises(Refused, match="no java here"):
        await KafkaCluster(directory=tmp_path / "new").start()
    with pytest.raises(Refused, match="one broker or more"):
        KafkaCluster(0)
