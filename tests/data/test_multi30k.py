"""The download of Multi30k, from a local server in place of GitHub."""

import gzip

import multi30k


def test_sources_are_english_and_targets_german(server, tmp_path, monkeypatch):
    captions = {name: f"a caption of {name}\n" for name in multi30k.CHECKSUMS}
    server.contents = {f"/raw/{name}": gzip.compress(caption.encode()) for name, caption in captions.items()}
    monkeypatch.setattr(multi30k, "CHECKSUMS", dict.fromkeys(captions))
    splits = multi30k.fetch(f"{server.url}/raw/", str(tmp_path))
    names = {"train": "train", "valid": "val", "test": "test_2016_flickr"}
    assert splits.keys() == names.keys()
    for split, (source, target) in splits.items():
        for path, language in ((source, "en"), (target, "de")):
            with gzip.open(path, "rt", encoding="utf-8") as file:
                assert file.read() == captions[f"{names[split]}.{language}.gz"]
