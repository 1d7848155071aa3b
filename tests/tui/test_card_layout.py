"""How the parts of the serve card share the screen."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cockpit.tui.card_layout import CardLayout

LAYOUTS = st.builds(
    CardLayout, width=st.integers(1, 300), height=st.integers(1, 100), wide=st.booleans(), forecast=st.booleans()
)


@given(LAYOUTS, st.integers(1, 60), st.integers(1, 60))
def test_the_upper_part_grows_with_what_it_holds_and_never_shrinks(layout: CardLayout, first: int, then: int) -> None:
    before = layout.upper(first, 0)
    assert before >= 1
    assert layout.upper(then, before) >= before
    assert layout.upper(first, before) == before


@given(LAYOUTS, st.integers(1, 60))
def test_findings_and_command_keep_their_lines_where_the_screen_has_them(layout: CardLayout, needed: int) -> None:
    upper = layout.upper(needed, 0)
    assert upper + layout.lower(upper) < layout.height
    assert layout.lower(upper) >= (10 if layout.wide else 7) or upper == 1


def test_toggles_have_the_whole_width_until_there_is_a_forecast() -> None:
    narrow = CardLayout(width=80, height=24, wide=False, forecast=False)
    assert (narrow.has_side, narrow.toggles_width) == (False, 80)
    assert CardLayout(width=80, height=24, wide=False, forecast=True).toggles_width == 42
    assert CardLayout(width=120, height=35, wide=True, forecast=False).toggles_width == 71
