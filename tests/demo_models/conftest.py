"""What the demo models' tests share."""

from collections.abc import Iterator

import pytest

from demo_models import texts


@pytest.fixture(scope="module", autouse=True)
def short_text() -> Iterator[None]:
    """An eighth of the text: every test that measures all held-out bytes is as much faster."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(texts, "MOST_BYTES", texts.MOST_BYTES // 8)
        texts._load.cache_clear()
        yield
    texts._load.cache_clear()
