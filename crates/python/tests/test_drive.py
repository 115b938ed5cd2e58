import copy
import pickle

import pytest

import phaselink


def test_a_drive_comes_from_a_name_a_file_a_text_or_a_dict(tmp_path):
    text = 'preset = "nvme"\n[media]\nread_ns = 300\n'
    path = tmp_path / "mine.toml"
    path.write_text(text)
    drives = [
        phaselink.load("nvme", media={"read_ns": 300}, name="mine"),
        phaselink.load(path),
        phaselink.load(str(path)),
        phaselink.load(text, name="mine"),
        phaselink.load({"preset": "nvme", "media": {"read_ns": 300}}, name="mine"),
        phaselink.load(phaselink.load("nvme"), set=["media.read_ns=300", "name=mine"]),
    ]
    read_ns = [drive.media.read_ns for drive in drives]
    assert read_ns == [300] * 6
    assert {drive.link.lanes for drive in drives} == {phaselink.load("nvme").link.lanes}


def test_later_overrides_count_and_a_drive_never_changes():
    drive = phaselink.load("nvme", link={"lanes": 8})
    assert drive.set(link={"lanes": 4}).set({"link.lanes": 2}).link.lanes == 2
    assert drive.link.lanes == 8


def test_presets_are_listed_and_taken_by_name():
    names = [preset.name for preset in phaselink.presets("media")]
    assert "dram" in names
    assert phaselink.load("nvme", media="dram").media.technology == "dram"
    assert phaselink.load("nvme", media="dram") == phaselink.load("nvme", set={"media.preset": "dram"})


def test_a_drive_survives_pickling_and_copying():
    drive = phaselink.load("pss", set={"media.read_ns": 900})
    assert pickle.loads(pickle.dumps(drive)) == drive == copy.deepcopy(drive)
    assert hash(pickle.loads(pickle.dumps(drive))) == hash(drive)
    assert drive != phaselink.load("pss")


def test_keys_are_attributes_items_and_completions():
    drive = phaselink.load("nvme")
    assert drive.media.read_ns == drive["media.read_ns"] == drive.to_dict()["media"]["read_ns"]
    assert "media" in dir(drive) and "read_ns" in dir(drive.media)
    with pytest.raises(AttributeError, match="no section meda"):
        drive.meda
    with pytest.raises(AttributeError, match="media has no key read"):
        drive.media.read
    with pytest.raises(KeyError):
        drive["media.read"]


def test_values_of_numpy_are_numbers():
    numpy = pytest.importorskip("numpy")
    drive = phaselink.load("nvme", link={"lanes": numpy.int64(4)}, media={"read_ns": numpy.float64(50.5)})
    assert (drive.link.lanes, drive.media.read_ns) == (4, 50.5)


def test_all_mistakes_are_told_at_once_in_the_words_of_the_program():
    with pytest.raises(phaselink.InputError) as told:
        phaselink.load("nvme", media={"read": 3}, link={"lanes": 3})
    text = str(told.value)
    assert "unknown key read in [media], did you mean read_ns?" in text and "link.lanes=3" in text
    places = [problem[0] for problem in told.value.problems]
    assert places == ["media.read=3", "link.lanes=3"]
    assert isinstance(told.value, ValueError)
    assert pickle.loads(pickle.dumps(told.value)).problems == told.value.problems


def test_a_word_that_is_no_drive_is_told_what_is():
    with pytest.raises(phaselink.InputError, match="no drive `nvm`, did you mean nvme"):
        phaselink.load("nvm")
    with pytest.raises(phaselink.InputError, match="cannot be read"):
        phaselink.load("missing.toml")
    with pytest.raises(TypeError):
        phaselink.load(3)


def test_texts_with_quotes_and_letters_of_all_kinds_arrive_as_they_are():
    for name in ['a "quoted" name', "Grüße", "back\\slash", "\U0001f4be"]:
        assert phaselink.load("nvme", name=name).name == name
