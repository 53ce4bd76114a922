import pytest

from calmix.corruptions import CORRUPTIONS
from calmix.progress import Finished, Message, Progress, ignore
from calmix.runs.folder import create, epoch_line, open_run
from calmix.runs.presets import preset
from calmix.study.executors import SerialExecutor
from calmix.study.plan import cost, run_plan, run_state
from calmix.study.tasks import Context, Task, TaskResult
from tests.fabricate import fabricate
from tests.scenarios import tiny


def test_a_run_is_as_far_as_its_epochs(tmp_path):
    recipe = tiny("deep", epochs=2)
    assert run_state(recipe, (), tmp_path) == ("missing", 1.0)
    run = create(recipe, tmp_path)
    assert run_state(recipe, (), tmp_path) == ("missing", 1.0)
    (run.stream_folder(1) / "checkpoint.pt").write_bytes(b"")
    assert run_state(recipe, (), tmp_path) == ("started", 1.0)
    (epoch,) = fabricate(tmp_path / "other").history
    (run.stream_folder(1) / "metrics.jsonl").write_bytes(epoch_line(epoch))
    assert run_state(recipe, (), tmp_path) == ("started", 0.75)
    run.model_path.write_bytes(b"")
    assert run_state(recipe, (), tmp_path) == ("started", 0.0)


@pytest.mark.parametrize("content", ["{}", "[]", '{"version": 1}', ""])
def test_a_run_whose_numbers_cannot_be_read_is_not_finished(tmp_path, content):
    run = fabricate(tmp_path)
    assert run_state(run.recipe, (), tmp_path) == ("finished", 0.0)
    run.summary_path.write_text(content)
    assert run_state(run.recipe, (), tmp_path) == ("started", 0.0)


def test_a_run_is_finished_when_all_test_sets_are_evaluated(tmp_path):
    run = fabricate(tmp_path)
    assert run_state(run.recipe, ("fog",), tmp_path) == ("started", 0.0)
    corrupted = fabricate(tmp_path, "deep", corrupted=(0.5, 0.5))
    assert run_state(corrupted.recipe, CORRUPTIONS, tmp_path) == ("finished", 0.0)


@pytest.mark.parametrize("what", ["validation", "test", "fog-3"])
def test_numbers_without_their_predictions_are_not_enough(tmp_path, what):
    run = fabricate(tmp_path, corrupted=(0.5, 0.5))
    run.predictions_path(what).unlink()
    assert run_state(run.recipe, CORRUPTIONS, tmp_path) == ("started", 0.0)


class FakeExecutor(SerialExecutor):
    """Keeps the tasks in the order in which they start, and fails at some."""

    def __init__(self, fails=lambda task: False):
        super().__init__(None, ignore)
        self.fails, self.tasks = fails, []

    def results(self):
        while self.queue:
            task = self.queue.pop(0)
            self.tasks.append(task)
            yield TaskResult(task, "it broke" if self.fails(task) else "")


def test_an_ensemble_is_written_when_all_its_members_are_trained(tmp_path):
    single, plain, mixup = tiny(), tiny("deep"), tiny("deep", "mixup")
    executor = FakeExecutor(lambda task: task.members == (1,) and task.recipe == mixup)
    plan = {single: (), plain: ("fog",), mixup: ()}
    events = []
    errors = run_plan(plan, tmp_path, executor, events.append)
    assert errors == {"digits deep mixup seed 7 member 1": "it broke"}
    assert {(task.recipe, task.members) for task in executor.tasks} == {
        (single, None),
        (plain, (0,)),
        (plain, (1,)),
        (plain, None),
        (mixup, (0,)),
        (mixup, (1,)),
    }
    members = [place for place, task in enumerate(executor.tasks) if task.recipe == plain and task.members]
    assert executor.tasks[max(members) + 1] == Task(plain, None, ("fog",))  # before what else waits
    assert Message("failed: it broke", "digits deep mixup seed 7 member 1") in events
    # Seven tasks, one of which never starts, because a member failed.
    steps = [event for event in events if isinstance(event, Progress)]
    assert [event.text.split(" tasks")[0] for event in steps] == [f"{done} of 7" for done in range(7)]
    assert [event.done for event in steps] == sorted(event.done for event in steps)
    assert events[-1] == Finished("all runs", "7 tasks")


def test_finished_runs_are_left_alone(tmp_path):
    run = fabricate(tmp_path, "deep")
    executor, events = FakeExecutor(), []
    assert run_plan({run.recipe: ()}, tmp_path, executor, events.append) == {}
    assert executor.tasks == events == []
    run_plan({run.recipe: ("fog",)}, tmp_path, executor, ignore)
    assert executor.tasks == [Task(run.recipe, None, ("fog",))]  # trained: there are no members left


def test_members_that_wait_for_each_other_are_divided_in_a_plan_of_one_run(tmp_path):
    coupled = tiny("deep", "camixup", gap_of="pool", members=4)

    def members(plan, jobs):
        executor = FakeExecutor()
        run_plan(plan, tmp_path, executor, ignore, jobs=jobs)
        return sorted(task.members or () for task in executor.tasks)

    assert members({coupled: ()}, jobs=2) == [(), (0, 2), (1, 3)]
    assert members({coupled: ()}, jobs=1) == [()]
    # Among other tasks they could wait for members whose task has not started.
    assert members({coupled: (), tiny(): ()}, jobs=2) == [(), ()]


def test_the_longest_tasks_start_first(tmp_path):
    recipes = [tiny(epochs=1), tiny("batch", epochs=9), tiny(epochs=9), tiny(epochs=9, width=8)]
    executor = FakeExecutor()
    run_plan(dict.fromkeys(recipes, ()), tmp_path, executor, ignore)
    costs = [cost(task) for task in executor.tasks]
    assert costs == sorted(costs, reverse=True)
    assert executor.tasks[-1].recipe == recipes[0]


def test_costs_by_hand():
    recipe = tiny("deep", members=3, epochs=2, train_size=80, width=4)
    assert cost(Task(recipe)) == 2 * 80 * 3 * 4
    assert cost(Task(recipe, (1,))) == 2 * 80 * 4
    assert cost(Task(recipe.replace(mixing="regmixup"), (1,))) == 2 * 80 * 4 * 2
    assert cost(Task(preset("cifar10", "mc", scale="paper"))) > cost(Task(preset("cifar10", "mc")))


def test_a_plan_from_beginning_to_end(tmp_path):
    recipe = tiny("deep", "camixup", epochs=1, corruption_size=10)
    executor = SerialExecutor(Context(tmp_path), ignore)
    assert run_plan({recipe: ("contrast",)}, tmp_path, executor, ignore) == {}
    assert run_state(recipe, ("contrast",), tmp_path) == ("finished", 0.0)
    assert set(open_run(tmp_path / recipe.name).summary.corrupted) == {"contrast"}
