// A conversation as a file.

const fence_around = (text) => '`'.repeat(Math.max(3, ...[...text.matchAll(/`+/g)].map((run) => run[0].length + 1)));

export function as_markdown(conversation) {
    const parts = [`# ${conversation.name}`];
    const { system } = conversation;
    if (system) parts.push('## System prompt', `${fence_around(system)}text\n${system}\n${fence_around(system)}`);
    for (const turn of conversation.turns) {
        parts.push('## You', turn.user, '## Answer');
        if (turn.thought) parts.push(`<think>\n${turn.thought}\n</think>`);
        parts.push(turn.answer || '(none)');
    }
    return `${parts.join('\n\n')}\n`;
}

export function as_json(conversation) {
    const { id, name, system, turns } = conversation;
    const messages = turns.flatMap(({ user, answer, thought, usage, timings, attention, state }) => [
        { role: 'user', content: user },
        { role: 'assistant', content: answer, reasoning_content: thought || undefined, state, usage, timings, attention },
    ]);
    if (system) messages.unshift({ role: 'system', content: system });
    return `${JSON.stringify({ id, title: name, messages }, null, 2)}\n`;
}

/** A title has any characters; a file's name must not. */
const file_name_of = (title) => title.replace(/[^\p{L}\p{N} ._-]+/gu, ' ').trim().slice(0, 60) || 'conversation';

export function download(conversation, kind) {
    const text = kind === 'json' ? as_json(conversation) : as_markdown(conversation);
    const address = URL.createObjectURL(new Blob([text], { type: kind === 'json' ? 'application/json' : 'text/markdown' }));
    const link = document.createElement('a');
    link.href = address;
    link.download = `${file_name_of(conversation.name)}.${kind === 'json' ? 'json' : 'md'}`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(address), 10000);
}
