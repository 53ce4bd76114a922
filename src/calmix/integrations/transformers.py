"""Hugging Face Trainer: a model that mixes the embeddings of a sequence classifier, and its callback.

networks = [BertForSequenceClassification(config) for _ in range(4)]
model = MixedClassifier(
    calmix.DeepEnsemble(networks, output="logits"), calmix.CAMixup(num_classes=3, members=4)
)
trainer = Trainer(model, arguments, train_dataset=train, eval_dataset=val, callbacks=[MixerCallback()])
trainer.train()  # with eval_strategy="epoch"
output = trainer.predict(test)
predictions = calmix.Predictions.from_batch_first(output.predictions, output.label_ids)
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from calmix.augment import Mixer, Plan, cross_entropy
from calmix.ensembles import BatchEnsemble, DeepEnsemble, MCDropout
from calmix.errors import InputError
from calmix.integrations import learns_from_validation, requires

with requires("transformers", "transformers"):
    from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments
    from transformers.modeling_outputs import SequenceClassifierOutput

SAVED = "mixer.state."  # before the names of the mixer's tensors in a state_dict


class MixedClassifier(nn.Module):
    """An ensemble of sequence or image classifiers, trained on mixed inputs, for the plain `Trainer`.

    With labels (B,) in training, the word embeddings of `input_ids` (B, T), or `pixel_values`, are mixed as
    `mixer` says. The attention mask of a mixed row is the maximum of the two; token types and positions are
    those of the row itself. `labels`, `group` and `index` (B,) go to the mixer. In evaluation nothing is
    mixed. The result has the loss and logits (B, M, C): the Trainer joins batches on the first axis, and
    `Predictions.from_batch_first` takes what it returns.

    The loss is the mean over members that share weights, and the sum over the independent members of a
    `DeepEnsemble`: each has the gradient that it would have alone. `TrainingArguments.max_grad_norm` couples
    these, because it clips the norm over all members; 0 turns it off.

    The ensemble takes the logits out of what the networks return: `DeepEnsemble(networks, output="logits")`.
    The mixer's state is saved with the weights, as tensors, so that safetensors holds it.
    """

    accepts_loss_kwargs = False  # the loss is a mean over the batch: the Trainer divides by accumulated steps

    def __init__(self, ensemble: BatchEnsemble | DeepEnsemble | MCDropout, mixer: Mixer) -> None:
        super().__init__()
        if not isinstance(ensemble, BatchEnsemble | DeepEnsemble | MCDropout):
            raise InputError(
                f"ensemble is a {type(ensemble).__name__}; give a BatchEnsemble, DeepEnsemble or MCDropout, "
                'for one network calmix.DeepEnsemble([network], output="logits")'
            )
        if not isinstance(mixer, Mixer):
            raise InputError(f"mixer is a {type(mixer).__name__}; give one, e.g. calmix.Mixup(num_classes=2)")
        self.ensemble, self.mixer = ensemble, mixer
        self.register_state_dict_post_hook(_flatten_mixer_state)  # type: ignore[no-untyped-call]
        self.register_load_state_dict_pre_hook(_nest_mixer_state)  # type: ignore[no-untyped-call]

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        position_ids: Tensor | None = None,
        pixel_values: Tensor | None = None,
        labels: Tensor | None = None,
        group: Tensor | None = None,
        index: Tensor | None = None,
    ) -> SequenceClassifierOutput:
        if (input_ids is None) == (pixel_values is None):
            raise InputError("give either input_ids (B, T) or pixel_values (B, channels, height, width)")
        rows = _given(token_type_ids=token_type_ids, position_ids=position_ids)
        if self.training and labels is not None:
            plan = self._plan(labels, group, index, separate=input_ids is not None)
            named = {name: _same_rows(plan, tensor) for name, tensor in rows.items()}
            if attention_mask is not None:
                named["attention_mask"] = _mix_mask(plan, attention_mask)
            batch = plan(self._embed(input_ids) if pixel_values is None else pixel_values.unsqueeze(0))
            name = "inputs_embeds" if pixel_values is None else "pixel_values"
            logits = self.ensemble(**{name: batch.inputs}, **named, per_member=True)
            self.mixer.observe(logits[:, : batch.images].detach(), labels, index)
            loss: Tensor | None = batch.loss(logits)
        else:
            inputs = _given(input_ids=input_ids, pixel_values=pixel_values, attention_mask=attention_mask)
            logits = self.ensemble(**inputs, **rows)
            loss = None if labels is None else cross_entropy(logits, labels).mean(1)
        if loss is not None:
            loss = loss.sum() if isinstance(self.ensemble, DeepEnsemble) else loss.mean()
        return SequenceClassifierOutput(loss=loss, logits=logits.transpose(0, 1).contiguous())

    def _networks(self) -> list[Any]:
        """The networks with embeddings of their own."""
        return (
            list(self.ensemble.networks)
            if isinstance(self.ensemble, DeepEnsemble)
            else [self.ensemble.network]
        )

    def _plan(self, labels: Tensor, group: Tensor | None, index: Tensor | None, *, separate: bool) -> Plan:
        """One draw, with labels (1, B), or (M, B) where members have separate embeddings."""
        if separate and self.mixer.mixing.mix == "cutmix":
            raise InputError(
                "CutMix cuts along spatial axes, and embeddings have none; give Mixup or CAMixup"
            )
        count = len(self._networks()) if separate else 1
        group = None if group is None else group.expand(count, -1)
        index = None if index is None else index.expand(count, -1)
        return self.mixer.plan(labels.expand(count, -1), per_member=True, group=group, index=index)

    def _embed(self, input_ids: Tensor | None) -> Tensor:
        """Word embeddings (1 or M, B, T, D)."""
        return torch.stack([network.get_input_embeddings()(input_ids) for network in self._networks()])


class MixerCallback(TrainerCallback):
    """Validate and update the mixer of a `MixedClassifier`.

    A mixer that learns from validation data (`CAMixup`) decides anew after each evaluation of `train`, before
    the checkpoint is written; it needs `eval_strategy="epoch"` or "steps" and one evaluation data set. Every
    other mixer is updated after each epoch. Evaluation before the first step, and `evaluate` or `predict`
    outside of `train`, change nothing. In distributed training the examples of all processes count.
    """

    def __init__(self) -> None:
        self._handle: RemovableHandle | None = None

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        model = kwargs["model"]
        if not isinstance(model, MixedClassifier):
            raise InputError(f"the Trainer's model is a {type(model).__name__}; give it a MixedClassifier")
        if learns_from_validation(model.mixer) and args.eval_strategy == "no":
            raise InputError(
                f"{type(model.mixer).__name__} decides from validation data and there are none; give "
                'TrainingArguments eval_strategy="epoch" and the Trainer an eval_dataset'
            )

        def validate(module: nn.Module, args: Any, named: dict[str, Any], output: Any) -> None:
            labels = named.get("labels")
            if not module.training and labels is not None and state.global_step > 0:
                model.mixer.validate(output["logits"].transpose(0, 1), labels, named.get("group"))

        self._remove()
        self._handle = model.register_forward_hook(validate, with_kwargs=True)

    def on_evaluate(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        mixer = kwargs["model"].mixer
        if self._handle is not None and state.global_step > 0 and learns_from_validation(mixer):
            mixer.update()

    def on_epoch_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        mixer = kwargs["model"].mixer
        if not learns_from_validation(mixer):
            mixer.update()

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        self._remove()

    def _remove(self) -> None:
        if self._handle is not None:
            self._handle.remove()
            self._handle = None


def _given(**tensors: Tensor | None) -> dict[str, Tensor]:
    return {name: tensor for name, tensor in tensors.items() if tensor is not None}


def _mix_mask(plan: Plan, mask: Tensor) -> Tensor:
    """The maximum of a row's mask and its partner's, (M, B', ...): their mixture is 0 only where both are."""
    mixed = plan(mask.float().expand(len(plan.y), *mask.shape)).inputs
    return (mixed > 0).to(mask.dtype)


def _same_rows(plan: Plan, tensor: Tensor) -> Tensor:
    """A tensor (B, ...) as it is for each row of the mixed batch, (1, B', ...)."""
    return torch.cat([tensor, tensor] if plan.mixing.clean_too else [tensor]).unsqueeze(0)


def _flatten_mixer_state(module: nn.Module, state: dict[str, Any], prefix: str, metadata: Any) -> None:
    """Safetensors holds tensors and no dictionaries."""
    extra = state.pop(f"{prefix}mixer._extra_state", None)
    if extra is not None:
        state[f"{prefix}{SAVED}history"] = extra["history"].clone()
        state.update({f"{prefix}{SAVED}where.{name}": t.clone() for name, t in extra["where"].items()})


def _nest_mixer_state(module: nn.Module, state: dict[str, Any], prefix: str, *rest: Any) -> None:
    start = prefix + SAVED
    saved = {name.removeprefix(start): state.pop(name) for name in list(state) if name.startswith(start)}
    if saved:
        where = {name.removeprefix("where."): t for name, t in saved.items() if name.startswith("where.")}
        state[f"{prefix}mixer._extra_state"] = {"history": saved["history"], "where": where}
