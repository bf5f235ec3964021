import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import AttentionInterface

from span_marker.attention import ATTENTION_NAME, POSITION_OFFSET, MarkerLayout, additive_mask, marker_attention

HEADS, HEAD_SIZE = 4, 8


def make_layout(lengths, spans, text=None, most=None):
    """A layout with texts of these lengths and these spans; padded to the longest, or further."""
    text, most = text or max(lengths), max(map(len, spans)) if most is None else most
    columns = torch.zeros(2, len(spans), most, dtype=torch.long)
    for row, of_row in enumerate(spans):
        for index, span in enumerate(of_row):
            columns[:, row, index] = torch.tensor(span)
    text_mask = torch.arange(text) < torch.tensor(lengths)[:, None]
    span_mask = torch.arange(most) < torch.tensor([len(of_row) for of_row in spans])[:, None]
    return MarkerLayout(text_mask, span_mask, *columns)


@pytest.fixture
def layout():
    """Three tokens with spans (0, 1) and (2, 2); two tokens with span (1, 1)."""
    return make_layout([3, 2], [[(0, 1), (2, 2)], [(1, 1)]])


def random_states(layout, key_heads=HEADS, dtype=torch.float32):
    packed = len(layout.packed_index)
    return (torch.randn(1, heads, packed, HEAD_SIZE, dtype=dtype) for heads in (HEADS, key_heads, key_heads))


def attend_densely(layout, query, key, value, scaling=None, window=None):
    """The same attention over padded rows with a mask for every pair of tokens."""
    batch, total = layout.token_mask.shape

    def pad(states):
        groups = HEADS // states.shape[1]
        padded = states.new_zeros(batch * total, HEADS, HEAD_SIZE)
        padded[layout.packed_index] = states[0].repeat_interleave(groups, dim=0).transpose(0, 1)
        return padded.view(batch, total, HEADS, HEAD_SIZE).transpose(1, 2)

    visible = layout.visible()
    if window is not None:
        text = layout.text_mask.shape[1]
        positions = layout.position_ids
        visible[:, :, :text] &= (positions[:, :, None] - positions[:, None, :text]).abs() <= window
    scores = pad(query) @ pad(key).transpose(-1, -2) * (HEAD_SIZE**-0.5 if scaling is None else scaling)
    attended = (scores + additive_mask(visible[:, None], scores.dtype)).softmax(-1) @ pad(value)
    return attended.transpose(1, 2).flatten(0, 1)[layout.packed_index][None]


class TestLayout:
    def test_position_ids(self, layout):
        assert layout.position_ids.tolist() == [[2, 3, 4, 2, 4, 3, 4], [2, 3, 1, 3, 1, 3, 1]]
        assert POSITION_OFFSET == 2

    def test_token_mask(self, layout):
        assert layout.token_mask.int().tolist() == [[1, 1, 1, 1, 1, 1, 1], [1, 1, 0, 1, 0, 1, 0]]

    def test_index_and_rows(self, layout):
        assert layout.text_index.tolist() == [0, 1, 2, 3, 4]
        assert layout.span_index.tolist() == [0, 1, 2]
        assert layout.text_rows[layout.text_mask].tolist() == [0, 1, 2, 3, 4]
        assert layout.span_rows[layout.span_mask].tolist() == [0, 1, 2]
        assert layout.text_rows.min() >= 0
        assert layout.text_rows.max() < 5
        assert layout.span_rows.max() < 3

    def test_packed_index(self, layout):
        texts, starts, ends = [0, 1, 2, 7, 8], [3, 4, 10], [5, 6, 12]
        assert layout.packed_index.tolist() == texts + starts + ends

    def test_visible_text(self, layout):
        assert layout.visible_text().int().tolist() == [[[[1, 1, 1]]], [[[1, 1, 0]]]]

    def test_visible_text_in_a_window(self, layout):
        first = [[1, 1, 0], [1, 1, 1], [0, 1, 1]]  # text
        first += [[1, 1, 0], [0, 1, 1]]  # start markers, of tokens 0 and 2
        first += [[1, 1, 1], [0, 1, 1]]  # end markers, of tokens 1 and 2
        visible = layout.visible_text(1)
        assert visible.shape == (2, 1, 7, 3)
        assert visible[0, 0].int().tolist() == first
        assert visible[1, 0, [0, 1, 3, 5]].int().tolist() == [[1, 1, 0]] * 4

    def test_visible(self, layout):
        assert layout.visible()[0].int().tolist() == [
            [1, 1, 1, 0, 0, 0, 0],
            [1, 1, 1, 0, 0, 0, 0],
            [1, 1, 1, 0, 0, 0, 0],
            [1, 1, 1, 1, 0, 1, 0],
            [1, 1, 1, 0, 1, 0, 1],
            [1, 1, 1, 1, 0, 1, 0],
            [1, 1, 1, 0, 1, 0, 1],
        ]
        assert layout.visible()[1][layout.token_mask[1]].int().tolist() == [
            [1, 1, 0, 0, 0, 0, 0],
            [1, 1, 0, 0, 0, 0, 0],
            [1, 1, 0, 1, 0, 1, 0],
            [1, 1, 0, 1, 0, 1, 0],
        ]

    def test_without_spans(self):
        layout = make_layout([3, 1], [[], []])
        assert layout.position_ids.tolist() == [[2, 3, 4], [2, 1, 1]]
        assert layout.packed_index.tolist() == [0, 1, 2, 3]
        assert layout.visible().int().tolist() == [[[1, 1, 1]] * 3, [[1, 0, 0]] * 3]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_additive_mask(dtype):
    mask = additive_mask(torch.tensor([[True, False]]), dtype)
    assert mask.dtype == dtype
    assert mask.tolist() == [[0.0, torch.finfo(dtype).min]]


@st.composite
def layouts(draw):
    lengths = draw(st.lists(st.integers(1, 6), min_size=1, max_size=4))
    spans = []
    for length in lengths:
        index = st.integers(0, length - 1)
        spans.append(draw(st.lists(st.tuples(index, index), max_size=4)))
    extra = draw(st.integers(0, 2))
    return make_layout(lengths, spans, max(lengths) + extra, max(map(len, spans)) + extra)


class TestAttention:
    def test_registered(self):
        assert AttentionInterface()[ATTENTION_NAME] is marker_attention

    @settings(max_examples=60, deadline=None)
    @given(
        layout=layouts(),
        key_heads=st.sampled_from([1, 2, 4]),
        window=st.none() | st.integers(0, 4),
        scaling=st.sampled_from([None, 0.7]),
        seed=st.integers(0, 99),
    )
    def test_equals_dense_attention(self, layout, key_heads, window, scaling, seed):
        torch.manual_seed(seed)
        query, key, value = random_states(layout, key_heads)
        output, weights = marker_attention(
            torch.nn.Identity(),
            query,
            key,
            value,
            scaling=scaling,
            marker_layout=layout,
            sliding_window=None if window is None else window + 1,
        )
        assert weights is None
        expected = attend_densely(layout, query, key, value, scaling, window)
        torch.testing.assert_close(output, expected, rtol=0, atol=1e-5)

    def test_by_hand(self):
        # One token, one span. Scores: the token sees itself; the start marker sees token 0, itself 1, its partner 2.
        layout = make_layout([1], [[(0, 0)]])
        query = torch.tensor([[[[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]]])
        key = torch.tensor([[[[0.0, 3.0], [1.0, 4.0], [2.0, 5.0]]]])
        value = torch.tensor([[[[1.0, 0.0], [0.0, 1.0], [2.0, 2.0]]]])
        output, _ = marker_attention(torch.nn.Identity(), query, key, value, scaling=1.0, marker_layout=layout)
        start, end = torch.tensor([0.0, 1.0, 2.0]).softmax(0), torch.tensor([3.0, 4.0, 5.0]).softmax(0)
        values = value[0, 0]
        torch.testing.assert_close(output[0, :, 0], torch.stack([values[0], start @ values, end @ values]))

    def test_gradients_equal_dense_attention(self, layout):
        torch.manual_seed(0)
        states = [part.requires_grad_() for part in random_states(layout, 2, torch.float64)]
        output, _ = marker_attention(torch.nn.Identity(), *states, marker_layout=layout, sliding_window=2)
        weights = torch.randn_like(output)
        found = torch.autograd.grad((output * weights).sum(), states)
        expected = torch.autograd.grad((attend_densely(layout, *states, window=1) * weights).sum(), states)
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)

    def test_row_without_text_is_finite(self):
        layout = make_layout([2, 0], [[(0, 1)], [(0, 0)]])
        states = [part.requires_grad_() for part in random_states(layout)]
        output, _ = marker_attention(torch.nn.Identity(), *states, marker_layout=layout)
        assert output.isfinite().all()
        assert all(part.isfinite().all() for part in torch.autograd.grad(output.sum(), states))

    @pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
    def test_low_precision(self, layout, dtype):
        torch.manual_seed(0)
        states = [part * 8 for part in random_states(layout)]
        exact, _ = marker_attention(torch.nn.Identity(), *states, marker_layout=layout, sliding_window=2)
        output, _ = marker_attention(
            torch.nn.Identity(), *(part.to(dtype) for part in states), marker_layout=layout, sliding_window=2
        )
        assert output.dtype == dtype
        assert (output.float() - exact).abs().mean() < 0.3

    def test_dropout(self):
        torch.manual_seed(0)
        layout = make_layout([100], [[(index, index) for index in range(100)]])
        query, key, value = random_states(layout)
        value = torch.ones_like(value)
        kept, _ = marker_attention(torch.nn.Identity(), query, key, value, marker_layout=layout)
        torch.testing.assert_close(kept, torch.ones_like(kept))
        dropped, _ = marker_attention(torch.nn.Identity(), query, key, value, dropout=0.5, marker_layout=layout)
        for part in dropped[0].split(100):  # text, start markers, end markers
            assert part.std() > 0.05
            assert part.mean().item() == pytest.approx(1, abs=0.05)


class Elements(TorchDispatchMode):
    """Counts the numbers that operations write."""

    def __init__(self):
        super().__init__()
        self.largest = self.total = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        for tensor in result if isinstance(result, (tuple, list)) else [result]:
            if isinstance(tensor, torch.Tensor):
                self.largest = max(self.largest, tensor.numel())
                self.total += tensor.numel()
        return result


class TestCost:
    @staticmethod
    def count(text, spans):
        layout = make_layout([text], [[(0, 0)] * spans])
        states = [part.requires_grad_() for part in random_states(layout)]
        with Elements() as elements:
            output, _ = marker_attention(torch.nn.Identity(), *states, marker_layout=layout)
            output.sum().backward()
        return elements

    @pytest.mark.parametrize(("text", "spans"), [(32, 100), (32, 200), (64, 100), (64, 400)])
    def test_largest_tensor_is_markers_times_text(self, text, spans):
        assert self.count(text, spans).largest == HEADS * 2 * spans * (text + 2)

    def test_work_grows_with_markers_times_text(self):
        small, more_spans, more_text = self.count(32, 100), self.count(32, 400), self.count(128, 100)
        assert more_spans.total < 4.05 * small.total
        assert more_text.total < 4.05 * small.total
