"""The papers behind well-known encoders."""

import re
from typing import NamedTuple


class Paper(NamedTuple):
    """What a BibTeX entry of a paper on arXiv says.

    Attributes:
        key: The entry's key.
        authors: Last and first names, joined by " and ".
        title: The title.
        year: The year.
        arxiv: The paper's number on arXiv.
    """

    key: str
    authors: str
    title: str
    year: int
    arxiv: str

    def bibtex(self) -> str:
        """Write the entry.

        Returns:
            BibTeX.
        """
        return (
            f"@misc{{{self.key},\n    author = {{{self.authors}}},\n    title = {{{{{self.title}}}}},\n"
            f"    year = {{{self.year}}},\n    eprint = {{{self.arxiv}}},\n    archivePrefix = {{arXiv}}\n}}"
        )


_BERT = Paper(
    "devlin2018bert",
    "Devlin, Jacob and Chang, Ming-Wei and Lee, Kenton and Toutanova, Kristina",
    "BERT: Pre-training of Deep Bidirectional Transformers for Language Understanding",
    2018,
    "1810.04805",
)
_ROBERTA = Paper(
    "liu2019roberta",
    "Liu, Yinhan and Ott, Myle and Goyal, Naman and Du, Jingfei and Joshi, Mandar and Chen, Danqi and Levy, Omer and "
    "Lewis, Mike and Zettlemoyer, Luke and Stoyanov, Veselin",
    "RoBERTa: A Robustly Optimized BERT Pretraining Approach",
    2019,
    "1907.11692",
)
_XLM_ROBERTA = Paper(
    "conneau2019unsupervised",
    "Conneau, Alexis and Khandelwal, Kartikay and Goyal, Naman and Chaudhary, Vishrav and Wenzek, Guillaume and "
    "Guzmán, Francisco and Grave, Edouard and Ott, Myle and Zettlemoyer, Luke and Stoyanov, Veselin",
    "Unsupervised Cross-lingual Representation Learning at Scale",
    2019,
    "1911.02116",
)
_DEBERTA_V3 = Paper(
    "he2021debertav3",
    "He, Pengcheng and Gao, Jianfeng and Chen, Weizhu",
    "DeBERTaV3: Improving DeBERTa using ELECTRA-Style Pre-Training with Gradient-Disentangled Embedding Sharing",
    2021,
    "2111.09543",
)
_ELECTRA = Paper(
    "clark2020electra",
    "Clark, Kevin and Luong, Minh-Thang and Le, Quoc V. and Manning, Christopher D.",
    "ELECTRA: Pre-training Text Encoders as Discriminators Rather Than Generators",
    2020,
    "2003.10555",
)
_DISTILBERT = Paper(
    "sanh2019distilbert",
    "Sanh, Victor and Debut, Lysandre and Chaumond, Julien and Wolf, Thomas",
    "DistilBERT, a distilled version of BERT: smaller, faster, cheaper and lighter",
    2019,
    "1910.01108",
)
_SENTENCE_BERT = Paper(
    "reimers2019sentence",
    "Reimers, Nils and Gurevych, Iryna",
    "Sentence-BERT: Sentence Embeddings using Siamese BERT-Networks",
    2019,
    "1908.10084",
)
_PAPERS = {
    r"(google-bert/)?bert-(base|large)-(un)?cased|(google-bert/)?bert-base-multilingual-(un)?cased": _BERT,
    r"(FacebookAI/)?roberta-(base|large)": _ROBERTA,
    r"(FacebookAI/)?xlm-roberta-(base|large)": _XLM_ROBERTA,
    r"microsoft/m?deberta-v3-\w+": _DEBERTA_V3,
    r"google/electra-(small|base|large)-discriminator": _ELECTRA,
    r"(distilbert/)?distilbert-base-(un)?cased": _DISTILBERT,
    r"sentence-transformers/(all|multi-qa|paraphrase)-[\w.-]+": _SENTENCE_BERT,
}
"""By the ids on the Hub of the encoders that the paper's authors published. A fine-tuned encoder is another one."""


def encoder_citation(base_model: str | None) -> str | None:
    """Find the paper of an encoder.

    Args:
        base_model: Its id on the Hub.

    Returns:
        BibTeX, or ``None`` where it is not known.
    """
    found = (paper.bibtex() for ids, paper in _PAPERS.items() if re.fullmatch(ids, base_model or ""))
    return next(found, None)
